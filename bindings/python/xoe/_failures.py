"""Errors of collectives that a framework raised as its own: the libraries of bindings/plugins write the status before the
message."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator

from xoe.errors import XoeError, _of_status

_STATUS = re.compile(
    r"xoe (invalid_argument|unsupported|timeout|peer_lost|data_loss|resource_exhausted|unavailable|internal): (.*?)(?=\n|$)"
)


def error_of(error: BaseException) -> XoeError | None:
    """Xoe's own exception for one that a framework raised: PeerLostError and others; None: it does not come from Xoe."""
    found = _STATUS.search(str(error))
    return _of_status(found[1], found[2], completed=True) if found is not None else None


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
