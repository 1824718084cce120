"""Threads that complete the works of a group which have a future, and call back."""

from __future__ import annotations

import queue
import threading
import weakref
from contextlib import AbstractContextManager
from typing import Any, Protocol

_PATIENCE = 10  # seconds to wait for callbacks at the end
_here = threading.local()  # of a completer's thread: the depth of its completer


class Completable(Protocol):
    """A work."""

    def completers_stream(self) -> AbstractContextManager[Any]:
        """Where the completer's thread completes it and tells its future."""

    def complete(self) -> None:
        """Waits for its operations."""

    def call_back(self) -> None:
        """Tells its future."""


class Completer:
    """Completes works, and calls back, in the order of put(). Its thread sleeps while there are none, and ends also where
    nothing stops it, when neither its group nor a work of that is left: older versions of PyTorch do not shut groups down.

    A callback may wait for a work that it has started itself: a thread of its own completes works that are put by a callback.
    """

    def __init__(self, name: str, depth: int = 0) -> None:
        self._name = name
        self._depth = depth
        self._works: queue.SimpleQueue[Completable | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._inner: Completer | None = None  # for works that the callbacks put
        self._lock = threading.Lock()
        weakref.finalize(self, self._works.put, None).atexit = False

    def put(self, work: Completable) -> None:
        """Adds a work."""
        depth: int | None = getattr(_here, "depth", None)
        if depth is not None and depth >= self._depth:
            with self._lock:
                self._inner = self._inner or Completer(self._name, self._depth + 1)
            self._inner.put(work)
            return
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=_run, args=(self._works, self._depth), name=self._name, daemon=True)
                self._thread.start()
        self._works.put(work)

    def stop(self) -> None:
        """Ends the threads when all works have completed, and waits for them."""
        with self._lock:
            thread, self._thread = self._thread, None
            inner, self._inner = self._inner, None
        if thread is not None:
            self._works.put(None)
            if thread is not threading.current_thread():
                thread.join(timeout=_PATIENCE)
        if inner is not None:
            inner.stop()


def _run(works: queue.SimpleQueue[Completable | None], depth: int) -> None:
    _here.depth = depth
    while (work := works.get()) is not None:
        with work.completers_stream():
            work.complete()
            work.call_back()
        del work
