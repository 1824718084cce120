"""The call of an elastic :func:`xoe.run`, in variables: ranks that come later read it, too, after rank 0's input has ended."""

from __future__ import annotations

import base64
import itertools
import os

from xoe.errors import ResourceExhaustedError

_NAME = "_XOE_CALL_"  # and a number
_PART = 100_000  # of one variable: Linux allows 128 KiB
_MOST = 1 << 20  # of all: Linux allows a process a quarter of its stack's limit


def write_call(payload: bytes) -> dict[str, str]:
    """The variables of a call."""
    if len(payload) > _MOST:
        raise ResourceExhaustedError(
            f"the function and its arguments take {len(payload)} bytes, those of an elastic run may have {_MOST}: let the ranks"
            " read large arguments from a file"
        )
    text = base64.b64encode(payload).decode()
    return {f"{_NAME}{at // _PART}": text[at : at + _PART] for at in range(0, len(text), _PART)}


def take_call() -> bytes | None:
    """The call that the variables have, which this process's children do not inherit; None: there is none."""
    names = (f"{_NAME}{number}" for number in itertools.count())
    parts = [os.environ.pop(name) for name in itertools.takewhile(os.environ.__contains__, names)]
    return base64.b64decode("".join(parts)) if parts else None
