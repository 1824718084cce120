"""Exceptions that nothing catches."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from types import TracebackType

from xoe import world as _world
from xoe._failures import comes_from_peer
from xoe.errors import PeerLostError

_CAUSE_DELAY = 0.3  # seconds


def watch_uncaught() -> None:
    """An exception that nothing catches ends this rank. If another rank is its cause, its traceback is delayed: the cause
    is printed first, and usually the launcher has ended this rank by then. Else the peers are told at once, since the
    interpreter may take seconds to end."""
    show = sys.excepthook
    if getattr(show, "_xoe", False):
        return

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if isinstance(error, PeerLostError):
            sys.stdout.flush()
            time.sleep(_CAUSE_DELAY)
            if " failed: " in str(error):  # the launcher lets that rank end first: one line is enough here
                error, trace = error.with_traceback(None), None
        try:
            show(kind, error, trace)
        finally:
            with contextlib.suppress(Exception):  # whatever the error's own text and the peers do, this process ends
                if _ends_by(error) and not comes_from_peer(error):
                    _abort(f"{kind.__name__}: {error}".partition("\n")[0])

    hook._xoe = True  # type: ignore[attr-defined]
    sys.excepthook = hook


def _ends_by(error: BaseException) -> bool:
    """Whether the interpreter ends because of the error: programs also call the hook to print one that they handled."""
    if getattr(sys, "last_value", None) is not error or isinstance(error, KeyboardInterrupt):
        return False
    if hasattr(sys, "ps1") or sys.flags.interactive or sys.flags.inspect:
        return False
    here = threading.current_thread()
    return here is threading.main_thread() and all(thread is here or thread.daemon for thread in threading.enumerate())


def _abort(why: str) -> None:
    if _world.is_initialized():
        _world.current().engine.abort(why.encode("utf-8", "replace").decode())
