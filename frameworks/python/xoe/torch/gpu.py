"""GPU tensors: whether the engine works on them in GPU memory, and the memory for its results."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import torch

from xoe import _core
from xoe import world as _world
from xoe.errors import UnsupportedError
from xoe.torch.tensors import DTYPES

_streams: dict[tuple[str, torch.device], Any] = {}
_make_stream: Any = torch.cuda.Stream
_is_capturing: Any = torch.cuda.is_current_stream_capturing
_DTYPE_OF = {number: dtype for dtype, number in DTYPES.items()}


def choose_device(tensors: Sequence[torch.Tensor], reduction: str | None = None) -> str:
    """The kind of device on which an operation works: "cuda", on the tensors in place, where the engine supports it for
    GPU memory; else "cpu", and the tensors are copied there and back. The same on all ranks for the same types and devices.

    reduction: "sum", ...; None for data movement. Raises UnsupportedError where such a copy would become part of a graph.
    """
    if not tensors or not tensors[0].is_cuda:
        return "cpu"
    if _world.current().takes_gpu() and all(_is_taken(tensor, reduction) for tensor in tensors):
        return "cuda"  # the engine looks for a capture itself
    if _is_capturing():
        raise UnsupportedError(
            "a CUDA graph is being captured, and no graph can hold an operation of Xoe, in which the host takes part; call it"
            " before or after the capture (torch.cuda.graph)"
        )
    return "cpu"


def _is_taken(tensor: torch.Tensor, reduction: str | None) -> bool:
    if not tensor.is_cuda or tensor.layout is not torch.strided:
        return False
    return reduction is None or reduction in _core.REDUCTIONS


def stream_of(device: str, tensors: Sequence[torch.Tensor]) -> int | None:
    """For ``Engine.submit``: the stream that produces the tensors; None on the CPU."""
    return torch.cuda.current_stream(tensors[0].device).cuda_stream if device == "cuda" else None


def side_stream(purpose: str, device: torch.device) -> Any:
    """A stream of this GPU in which nothing computes: each time the same one for a purpose."""
    return _streams.get((purpose, device)) or _streams.setdefault((purpose, device), _make_stream(device))


def waits_in_stream(operations: Sequence[Any], results: Sequence[torch.Tensor]) -> bool:
    """Whether a stream can wait for these results: tensors of one GPU, on which the engine itself works."""
    if not results or not all(isinstance(operation, _core.Operation) for operation in operations):
        return False
    return all(tensor.is_cuda and tensor.device == results[0].device for tensor in results)


class Results:
    """Allocates GPU memory for results whose size is known late. The engine calls it, from any thread."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._tensors: dict[int, torch.Tensor] = {}

    def __call__(self, index: int, shape: tuple[int, ...], dtype: int) -> int:
        if isinstance(threading.current_thread(), threading._DummyThread):  # a thread of the engine's, with no current GPU yet
            torch.cuda.set_device(self._device)
        # In a stream of its own, so that there is hardly anything to wait for: NCCL writes to the memory at once.
        stream = side_stream("results", self._device)
        with torch.cuda.stream(stream):
            tensor = torch.empty(shape, dtype=_DTYPE_OF[dtype], device=self._device)
        stream.synchronize()
        self._tensors[index] = tensor
        return tensor.data_ptr()

    def take(self) -> list[torch.Tensor]:
        """The results, in order, for use in the caller's current stream."""
        tensors = [self._tensors[index] for index in sorted(self._tensors)]
        for tensor in tensors:
            tensor.record_stream(torch.cuda.current_stream(self._device))
        return tensors
