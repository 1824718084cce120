"""Operations that DistributedDataParallel's reducer starts during backward, and waits for at its end.

On one host nothing is gained by reducing meanwhile with processors that compute gradients, and much is lost by waking threads
for it: such operations are submitted when backward is done, by the thread that has called it. Operations of programs start at
once.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Protocol

import torch

from xoe import _core
from xoe.torch.distributed import completer as _completer
from xoe.torch.tensors import DTYPES

_autograd: Any = torch.autograd.Variable._execution_engine
_graph: Callable[[], int] = getattr(torch._C, "_current_graph_task_id", lambda: -1)


def begun_by_reducer() -> bool:
    """Whether C++ has called, within a backward: then no function in Python can wait before it ends."""
    if _graph() == -1:
        return False
    frame = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").startswith("xoe."):
        frame = frame.f_back  # type: ignore[assignment]
    return frame is not None and str(frame.f_globals.get("__name__", "")).startswith("torch.autograd")


def is_bucket(tensor: torch.Tensor) -> bool:
    """Whether this is a bucket of gradients in host memory, from DistributedDataParallel's reducer."""
    return (
        tensor.device.type == "cpu"
        and tensor.layout == torch.strided
        and tensor.dtype in DTYPES
        and tensor.is_floating_point()
        and tensor.is_contiguous()
        and begun_by_reducer()
    )


class Held:
    """An operation that is submitted when the first one asks for it. For one thread at a time."""

    def __init__(self, submit: Callable[[], _core.Operation]) -> None:
        self._submit = submit
        self._operation: _core.Operation | None = None

    def submit(self) -> _core.Operation:
        """The operation, submitted."""
        if self._operation is None:
            self._operation = self._submit()
        return self._operation

    def poll(self) -> bool:
        """Whether it has completed."""
        return self.submit().poll()

    def wait(self) -> None:
        """Until it has completed."""
        self.submit().wait()


class Completable(_completer.Completable, Protocol):
    """A work."""

    def submit(self) -> None:
        """Submits what is held."""

    def exception(self) -> Exception | None:
        """The error, if it failed."""


class EndOfBackward:
    """Works to complete when the backward that runs now has ended, in its thread. Of one process group."""

    def __init__(self, failed: Callable[[], None]) -> None:
        """failed: called where a work ends with an error, before anybody learns of it."""
        self._works: list[Completable] = []
        self._graph = -1
        self._failed = failed

    def add(self, work: Completable, completer: _completer.Completer) -> None:
        """Adds a work. Those of a backward that failed before its end are left to the completer."""
        graph = _graph()
        if graph != self._graph or not self._works:
            for left in self._works:
                completer.put(left)
            self._works, self._graph = [], graph
            _autograd.queue_callback(self._complete)
        self._works.append(work)

    def _complete(self) -> None:
        works, self._works = self._works, []
        for work in works:
            work.submit()
        for work in works:
            work.complete()
        if any(work.exception() is not None for work in works):
            self._failed()
        for work in works:
            work.call_back()
