"""Errors of collectives that a framework raised as its own: the libraries of frameworks/plugins write the status before the
message."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator

from xoe.errors import PeerLostError, XoeError, _of_status

_STATUS = re.compile(
    r"xoe (invalid_argument|unsupported|timeout|peer_lost|data_loss|resource_exhausted|unavailable|internal): (.*?)(?=\n|$)"
)


def error_of(error: BaseException) -> XoeError | None:
    """Xoe's own exception for one that a framework raised: PeerLostError and others; None: it does not come from Xoe."""
    found = _STATUS.search(str(error))
    return _of_status(found[1], found[2], completed=True) if found is not None else None


def comes_from_peer(error: BaseException) -> bool:
    """Whether the exception, or one that it was raised from, during or for, says that another rank was lost."""
    found: dict[int, BaseException] = {}
    left: list[BaseException | None] = [error]
    while left:
        one = left.pop()
        if one is None or id(one) in found:
            continue
        if isinstance(one, PeerLostError) or isinstance(error_of(one), PeerLostError):
            return True
        found[id(one)] = one
        left += [one.__cause__, one.__context__, *getattr(one, "exceptions", ())]
    return False


@contextlib.contextmanager
def typed(kind: type[BaseException], forget: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Raises errors of the framework's ``kind`` that come from Xoe as Xoe's own; ``forget`` is called before."""
    try:
        yield
    except kind as error:
        own = error_of(error)
        if own is None:
            raise
        forget()
        raise own from error
