"""The gradient of a parameter, and its reduction."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import torch
import torch.utils.dlpack

from xoe import _core
from xoe.torch.handle import Handle
from xoe.torch.tensors import DTYPES

# Channels last: the dense memory format besides the contiguous one, and its order of dimensions.
_CHANNELS_LAST = {
    4: (torch.channels_last, (0, 2, 3, 1)),
    5: (torch.channels_last_3d, (0, 2, 3, 4, 1)),
}
# Of a view of a slot: an attribute, and an argument.
_OWN_REFERENCES = 2


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

    Backward calls :meth:`put` or :meth:`start` between two of its kernels, when the interpreter is not in the CPU's caches.
    Their cost grows with the number of Python instructions, so there are few.
    """

    __slots__ = (
        "_address",
        "_buckets",
        "_copied_back",
        "_grad",
        "_index",
        "_layout",
        "_operation",
        "_version",
        "_view",
        "group",
        "hook",
        "left",
        "name",
        "param",
        "shows_view",
        "work",
    )

    def __init__(self, param: torch.Tensor, name: str, passes: int, shows_view: bool = True) -> None:
        self.param = param
        self.shows_view = shows_view  # param.grad becomes the view of its slot in a bucket
        self.name = name
        self.group: tuple[Gradient, ...] | None = None
        self.hook: Any = None
        self.left = passes  # backward passes until it is submitted
        self.work: Work | None = None
        self._grad: torch.Tensor | None = None
        self._operation: _core.Operation | None = None
        self._version = 0
        self._buckets: _core.Buckets | None = None
        self._index = 0
        self._address = 0  # of its slot
        self._layout: tuple[torch.dtype, torch.Size, tuple[int, ...]] = (torch.float32, torch.Size(), ())
        self._view: torch.Tensor = param  # of its slot
        self._copied_back = False  # the result is: param.grad is not the view

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
        memory_format, order = _CHANNELS_LAST.get(grad.dim(), (None, ()))
        if (
            memory_format is None
            or grad.layout is not torch.strided
            or not grad.is_cpu
            or not grad.is_contiguous(memory_format=memory_format)
            or grad.is_neg()
        ):
            return False
        dtype = DTYPES.get(grad.dtype)
        if dtype is not None:
            shape = torch.Size((1, *(grad.shape[dim] for dim in order)))
            self._operation = engine.submit_in_place(self.name, grad.data_ptr(), shape, dtype, request, grad)
        return dtype is not None

    # ---- In a bucket

    @property
    def in_bucket(self) -> bool:
        return self._buckets is not None

    def lie_in(self, buckets: _core.Buckets | None, index: int) -> bool:
        """From the next step on it lies in these buckets, in which it has this number, or in none. False: it has no slot."""
        if buckets is None or buckets.slot(index) is None:
            self._buckets, self._view = None, self.param
            return False
        grad: torch.Tensor = self.param.grad  # type: ignore[assignment]
        self._buckets = buckets
        self._index = index
        self._layout = (grad.dtype, grad.shape, grad.stride())
        self._view = self._new_view()
        self._address = self._view.data_ptr()
        return True

    def _new_view(self) -> torch.Tensor:
        slot: _core.Array = self._buckets.slot(self._index)  # type: ignore[union-attr, assignment]
        dtype, shape, strides = self._layout
        return torch.empty(0, dtype=dtype).set_(torch.utils.dlpack.from_dlpack(slot).untyped_storage(), 0, shape, strides)

    def _slot_view(self) -> torch.Tensor:
        """The view, of which the program may have replaced the memory, as model.to() and model.share_memory() do."""
        if self._view.data_ptr() != self._address:
            self._view = self._new_view()
        return self._view

    def _take_view_back(self) -> None:
        """Before the slot changes: a gradient of an earlier step that the program has kept gets memory of its own."""
        if sys.getrefcount(self._view) > _OWN_REFERENCES:
            self._replace_view()

    def _replace_view(self) -> None:
        kept, self._view = self._view, self._new_view()
        kept.data = kept.detach().clone()

    def put(self) -> bool:
        """Puts the gradient into its bucket. A missing one counts as zeros, since other ranks may wait for it. False: it has
        another type or shape than the bucket was laid out for, and is held, to be submitted once the buckets are reduced."""
        buckets: _core.Buckets = self._buckets  # type: ignore[assignment]
        param, index = self.param, self._index
        grad = param.grad
        if grad is not self._view:
            self._take_view_back()
        if grad is None:
            if (param.dtype, param.shape) != self._layout[:2]:
                return self._hold_outside(buckets)
            grad = self._put_zeros(buckets)
        else:
            done = buckets.put(index, grad)
            if done == 0:
                if (grad.dtype, grad.shape) != self._layout[:2]:
                    return self._hold_outside(buckets)
                self._put_converted(buckets, grad)
            elif done == 1 and self.shows_view:
                grad = param.grad = self._slot_view()
            else:
                self._copied_back = done == 1
        self._grad = grad
        self._version = grad._version
        return True

    def _hold_outside(self, buckets: _core.Buckets) -> bool:
        grad = self.param.grad
        memory = grad.untyped_storage().data_ptr() if grad is not None and grad.layout is torch.strided else 0
        if grad is not None and memory == self._address:  # a part of the slot, which becomes zeros
            self.param.grad = grad.detach().clone()
        buckets.leave_out(self._index)
        self.hold()
        return False

    def _put_zeros(self, buckets: _core.Buckets) -> torch.Tensor:
        param, view = self.param, self._slot_view()
        buckets.put_zeros(self._index)
        self._copied_back = not (
            self.shows_view and (param.dtype, param.shape, param.device) == (view.dtype, view.shape, view.device)
        )
        param.grad = torch.zeros_like(param) if self._copied_back else view
        return param.grad

    def _put_converted(self, buckets: _core.Buckets, grad: torch.Tensor) -> None:
        """For a gradient of another format or device than the one that the bucket was laid out for."""
        view = self._slot_view()
        with torch.no_grad():
            view.copy_(grad if grad.layout is torch.strided else grad.to_dense())
        buckets.put(self._index, view)
        self._copied_back = True

    def leave_out_unless_put(self) -> None:
        """Tells the other ranks that this one does not train the parameter, whose gradient of an earlier step stays."""
        if self._grad is None:
            if self.param.grad is self._view:
                self._replace_view()
            else:
                self._take_view_back()
            self._buckets.leave_out(self._index)  # type: ignore[union-attr]

    def take_result(self) -> None:
        """Copies the result from the bucket, where the gradient does not lie there."""
        if not self._copied_back:
            return
        grad: torch.Tensor = self.param.grad  # type: ignore[assignment]
        if grad.is_sparse:
            self.param.grad = self._view.to_sparse(grad.sparse_dim())
        else:
            grad.data.copy_(self._view)  # no change of the graph that it may belong to

    # ---- Both

    def wait(self) -> None:
        """Blocks until it has been reduced, unless it lies in a bucket."""
        if self._operation is not None:
            self._operation.wait()
        elif self.work is not None:
            self.work.handle.wait_completed()  # copying the result back would count as a change

    @property
    def is_modified(self) -> bool:
        """Whether the program has changed the gradient while it was in flight."""
        grad = self.param.grad
        return grad is None or grad is not self._grad or grad._version != self._version

    def reset(self, passes: int) -> None:
        """Drops the operation, if any."""
        self._grad = self._operation = self.work = None
        self._copied_back = False
        self.left = passes
