"""The gradient of a parameter, and its reduction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from xoe import _core
from xoe.torch.handle import Handle
from xoe.torch.tensors import DTYPES

# Channels last: the dense memory format besides the contiguous one, and its order of dimensions.
_CHANNELS_LAST = {
    4: (torch.channels_last, (0, 2, 3, 1)),
    5: (torch.channels_last_3d, (0, 2, 3, 4, 1)),
}


def dense_alias(grad: torch.Tensor) -> torch.Tensor:
    """The gradient's memory as a contiguous tensor, where it is dense. An additional dimension marks another memory format:
    ranks whose formats differ then get an error."""
    if grad.layout is not torch.strided or grad.is_contiguous() or grad.dim() not in _CHANNELS_LAST:
        return grad
    memory_format, order = _CHANNELS_LAST[grad.dim()]
    return grad.permute(order).unsqueeze(0) if grad.is_contiguous(memory_format=memory_format) else grad


class Work:
    """An operation on tensors derived from gradients: a group, or compressed, sparse or GPU gradients."""

    __slots__ = ("contexts", "gradients", "handle", "sent", "waited")

    def __init__(self, gradients: Sequence[Gradient], sent: Sequence[torch.Tensor], handle: Handle, contexts: Sequence[Any]):
        self.gradients = gradients
        self.sent = sent
        self.handle = handle
        self.contexts = contexts
        self.waited = False


class Gradient:
    """The gradient of one parameter.

    Backward calls :meth:`start` between two of its kernels, when the interpreter is not in the CPU's caches. Its cost grows
    with the number of Python instructions, so there are few.
    """

    __slots__ = (
        "_format",
        "_grad",
        "_operation",
        "_permuted",
        "_version",
        "group",
        "hook",
        "left",
        "name",
        "param",
        "work",
    )

    def __init__(self, param: torch.Tensor, name: str, passes: int) -> None:
        self.param = param
        self.name = name
        self.group: tuple[Gradient, ...] | None = None
        self.hook: Any = None
        self.left = passes  # backward passes until it is submitted
        self.work: Work | None = None
        self._grad: torch.Tensor | None = None
        self._operation: _core.Operation | None = None
        self._version = 0
        memory_format, order = _CHANNELS_LAST.get(param.dim(), (None, ()))
        self._format: torch.memory_format | None = memory_format
        self._permuted = torch.Size((1, *(param.shape[dim] for dim in order)))

    @property
    def in_flight(self) -> bool:
        return self._grad is not None

    def hold(self) -> torch.Tensor:
        """The gradient to submit. A missing one counts as zeros, since other ranks may wait for it."""
        if self.param.grad is None:
            self.param.grad = torch.zeros_like(self.param)
        grad = self.param.grad
        self._version = grad._version
        self._grad = grad
        return grad

    def start(self, engine: _core.Engine, request: _core.Request) -> bool:
        """Submits the gradient in place; False where the engine does not support its memory layout."""
        grad = self.hold()
        self._operation = engine.submit_tensor(self.name, grad, DTYPES, request)
        return self._operation is not None or self._start_channels_last(grad, engine, request)

    def _start_channels_last(self, grad: torch.Tensor, engine: _core.Engine, request: _core.Request) -> bool:
        """:meth:`start` for gradients in channels-last format."""
        if (
            self._format is None
            or grad.layout is not torch.strided
            or not grad.is_cpu
            or not grad.is_contiguous(memory_format=self._format)
            or grad.is_neg()
        ):
            return False
        dtype = DTYPES.get(grad.dtype)
        if dtype is not None:
            self._operation = engine.submit_in_place(self.name, grad.data_ptr(), self._permuted, dtype, request, grad)
        return dtype is not None

    def wait(self) -> None:
        """Blocks until it has been reduced."""
        if self._operation is not None:
            self._operation.wait()
        elif self.work is not None:
            self.work.handle.wait_completed()  # copying the result back would count as a change

    def check(self) -> None:
        """Raises RuntimeError if the gradient was modified while in flight."""
        grad = self.param.grad
        if grad is None or grad is not self._grad or grad._version != self._version:
            raise RuntimeError(
                f"{self.name.removeprefix('gradient.')} was modified while it was being reduced; call optimizer.synchronize()"
                " first, as before clip_grad_norm_() or GradScaler.unscale_()"
            )

    def reset(self, passes: int) -> None:
        """Drops the operation, if any."""
        self._grad = self._operation = self.work = None
        self.left = passes
