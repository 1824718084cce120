"""Tensors of a GPU: whether the core takes them where they are, and where its results go."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import torch

from xoe import world as _world
from xoe.torch.tensors import DTYPES, engine_dtype

_streams: dict[torch.device, Any] = {}
_make_stream: Any = torch.cuda.Stream
_NCCL = frozenset(("sum", "average", "min", "max", "product"))
_DTYPE_OF = {number: dtype for dtype, number in DTYPES.items()}


def choose_target(tensors: Sequence[torch.Tensor], reduction: str | None = None, scaled: bool = False) -> str:
    """The kind of device on which an operation works on these tensors: "cuda" if they are there and NCCL has the operation;
    else "cpu", and they are copied there and back. The same on all ranks, for the same types and devices.

    reduction: "sum", ...; None where elements only move. scaled: with a factor before or after.
    """
    if not tensors or not tensors[0].is_cuda or not _world.current().takes_gpu():
        return "cpu"
    return "cuda" if all(_stays(tensor, reduction, scaled) for tensor in tensors) else "cpu"


def _stays(tensor: torch.Tensor, reduction: str | None, scaled: bool) -> bool:
    if not tensor.is_cuda or tensor.layout is not torch.strided:
        return False
    dtype = engine_dtype(tensor.dtype)
    if reduction is None or dtype is None:  # to_engine_tensor() refuses what it does not know
        return True
    if dtype is torch.int16 or reduction not in _NCCL:
        return False
    if scaled:  # NCCL has factors in the tensor's own type
        return dtype in (torch.float32, torch.float64) and reduction in ("sum", "average")
    return dtype.is_floating_point or reduction != "average"


def current_stream(target: str, tensors: Sequence[torch.Tensor]) -> int | None:
    """For ``Engine.submit``: the stream in which tensors of a GPU are made."""
    return torch.cuda.current_stream(tensors[0].device).cuda_stream if target == "cuda" else None


class Results:
    """Memory of a GPU for results whose size is known late; ``Engine.submit`` calls it, from any thread."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._tensors: dict[int, torch.Tensor] = {}

    def __call__(self, index: int, shape: tuple[int, ...], dtype: int) -> int:
        if isinstance(threading.current_thread(), threading._DummyThread):  # one of the engine's, which is on no GPU yet
            torch.cuda.set_device(self._device)
        # In a stream of its own, so that hardly anything has to be waited for: NCCL writes there at once.
        stream = _streams.get(self._device)
        if stream is None:
            stream = _streams.setdefault(self._device, _make_stream(self._device))
        with torch.cuda.stream(stream):
            tensor = torch.empty(shape, dtype=_DTYPE_OF[dtype], device=self._device)
        stream.synchronize()
        self._tensors[index] = tensor
        return tensor.data_ptr()

    def take(self) -> list[torch.Tensor]:
        """The results, in order; for the stream that is the caller's now."""
        tensors = [self._tensors[index] for index in sorted(self._tensors)]
        for tensor in tensors:
            tensor.record_stream(torch.cuda.current_stream(self._device))
        return tensors
