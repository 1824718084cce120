"""Calls a function in a rank, and carries its result or its exception to the program that started the ranks."""

from __future__ import annotations

import contextlib
import pickle
import traceback
from collections.abc import Callable
from typing import Any

import cloudpickle

from xoe._failures import comes_from_peer

Outcome = tuple[bool, Any]  # (True, result), or (False, (the pickled exception, its traceback))


def attempt(function: Callable[[], Any]) -> Outcome:
    """What the function returns or raises. After an exception this rank has left the world."""
    try:
        return True, function()
    except BaseException as error:
        trace = traceback.format_exc()
        abandon(error)
        return False, (_pickled(error), trace)


def abandon(error: BaseException) -> None:
    """Leaves the world because of an error, of which the peers are told unless it comes from one of them."""
    from xoe import world
    from xoe.initialize import shutdown

    with contextlib.suppress(Exception):
        if world.is_initialized() and not comes_from_peer(error):
            why = f"{type(error).__name__}: {error}".partition("\n")[0]
            world.current().engine.abort(why.encode("utf-8", "replace").decode())
    shutdown()


def _pickled(error: BaseException) -> bytes:
    """Empty where the exception cannot be pickled."""
    try:
        return bytes(cloudpickle.dumps(error.with_traceback(None)))
    except Exception:
        return b""


def unpickled(data: bytes) -> BaseException | None:
    """The exception; None where it cannot be loaded."""
    try:
        error = pickle.loads(data)
    except Exception:
        return None
    return error if isinstance(error, BaseException) else None
