"""Collectives that callbacks of futures start.

A callback runs at once where its future has completed, and otherwise when it completes, in another thread: on each rank at a
time of its own. So its collectives are counted apart from all others, and the ranks' n-th ones after the same work meet.
PyTorch's ``then`` and ``add_done_callback`` are wrapped, which alone know that a function is a callback.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable
from typing import Any

import torch

_Future: Any = torch._C.Future
_WORKS = 1024  # numbers are used in turn: the engine caches names
_here = threading.local()  # sequence: of the callback that this thread is in


class Sequence:
    """The operations of one group that no callback starts, or those that the callbacks of one work start.

    after: in the names of operations: names the work, alike on all ranks. key: names the sequence.
    """

    def __init__(self, after: str, key: str) -> None:
        self.after = after
        self.counts: dict[str, int] = {}  # of operations, by group
        self._key = key
        self._works = 0

    def add_work(self) -> int:
        """The number of a work among those that operations of this sequence have made."""
        self._works += 1
        return self._works % _WORKS

    def after_work(self, number: int) -> Sequence:
        """What the callbacks of that work start."""
        after = f"{self._key}.{number}"
        return Sequence(after, after)


def current() -> Sequence | None:
    """The sequence that this thread's operations belong to; None: it is in no callback of a work."""
    return getattr(_here, "sequence", None)


def follow(future: Any, sequence: Sequence) -> None:
    """Operations of the future's callbacks, and of those of futures that these give, belong to the sequence."""
    _sequences[future] = sequence


_sequences: weakref.WeakKeyDictionary[Any, Sequence] = weakref.WeakKeyDictionary()


def watch() -> None:
    """Wraps PyTorch's functions; does nothing when called again."""
    for name in ("then", "add_done_callback"):
        original = getattr(_Future, name)
        if not hasattr(original, "_xoe"):
            setattr(_Future, name, _attach(original))


def _attach(original: Any) -> Any:
    @functools.wraps(original)
    def attach(self: Any, callback: Any) -> Any:
        sequence = _sequences.get(self)
        if sequence is None:
            return original(self, callback)
        given = original(self, _within(sequence, callback))
        if given is not None:
            follow(given, sequence)
        return given

    attach._xoe = True  # type: ignore[attr-defined]
    return attach


def _within(sequence: Sequence, callback: Callable[[Any], Any]) -> Callable[[Any], Any]:
    @functools.wraps(callback)
    def call(future: Any) -> Any:
        before = current()
        _here.sequence = sequence
        try:
            return callback(future)
        finally:
            _here.sequence = before

    return call
