"""Handles of asynchronous operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xoe import _core


class Handle:
    """An operation in flight; :func:`synchronize`, or calling the handle, returns its result.

    One thread at a time. A handle may be dropped: the operation continues, its tensors are kept until it has completed, and
    its result is lost, unless it is in place.
    """

    __slots__ = ("_finish", "_operation", "_result")

    def __init__(self, operation: _core.Operation, finish: Callable[[_core.Operation], Any] | None, result: Any = None) -> None:
        self._operation: _core.Operation | None = operation
        self._finish = finish
        self._result = result

    def poll(self) -> bool:
        """Whether it has completed or failed. Does not block."""
        return self._operation is None or self._operation.poll()

    def wait_completed(self) -> None:
        """Blocks until the operation has completed, without finishing the result as :meth:`wait` does; raises its error."""
        if self._operation is not None:
            self._operation.wait()

    def wait(self) -> Any:
        """Blocks until it has completed; returns its result, or raises its error."""
        operation = self._operation
        if operation is not None:
            operation.wait()
            if self._finish is not None:
                self._result = self._finish(operation)
            self._operation = self._finish = None
        return self._result

    __call__ = wait

    def _only(self) -> Handle:
        """This handle, which from now on returns the only element of its list."""
        finish = self._finish
        assert finish is not None
        self._finish = lambda operation: finish(operation)[0]
        return self


def poll(handle: Handle) -> bool:
    """Whether the operation has completed or failed: :func:`synchronize` will not block."""
    return handle.poll()


def synchronize(handle: Handle) -> Any:
    """Waits for the operation, without spinning and without the GIL; returns its result.

    Raises PeerLostError when a rank died, MismatchError when ranks gave different shapes, types or operations.
    """
    return handle.wait()
