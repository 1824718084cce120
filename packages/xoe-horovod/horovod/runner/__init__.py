"""``horovod.runner.run``."""

from __future__ import annotations

import functools
from typing import Any

import xoe


@functools.wraps(xoe.run)
def run(*args: Any, **kwargs: Any) -> list[Any]:
    """:func:`xoe.run` of a function that calls ``hvd.init()`` itself, as Horovod's do: before that, ``hvd.rank()`` raises."""
    return xoe.run(*args, initialize=False, **kwargs)
