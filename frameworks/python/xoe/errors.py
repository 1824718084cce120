"""Exceptions, classified by what the caller should do next. Messages name the ranks and the tensors.

Every error is an :class:`XoeError`. Those after which the world is broken, but can be re-formed, are also
:class:`HorovodInternalError`, which ``elastic.run`` catches.
"""

from __future__ import annotations

import re


class XoeError(RuntimeError):
    """Any failure of Xoe. ``code`` is its name in the C interface, such as ``"peer_lost"``."""

    code: str = "internal"

    @property
    def ranks(self) -> tuple[int, ...]:
        """Ranks that the message names, in ascending order; empty where it names none."""
        found: set[int] = set()
        own, _, _ = str(self).partition(" failed: ")  # what follows is another program's text
        for listed in re.findall(r"\branks? (\d+(?:(?:, | and |, and )\d+)*)", own):
            found.update(int(number) for number in re.findall(r"\d+", listed))
        return tuple(sorted(found))


class InvalidArgumentError(XoeError, ValueError):
    """The call is wrong: fix it. It had no effect."""

    code = "invalid_argument"


class MismatchError(InvalidArgumentError):
    """Ranks submitted one name with different shapes, types or operations. All ranks get the same message."""


class UnsupportedError(XoeError, NotImplementedError):
    """The operation is not supported here: choose another one."""

    code = "unsupported"


class DataLossError(XoeError):
    """Bytes are missing or corrupt; do not retry blindly."""

    code = "data_loss"


class ResourceExhaustedError(XoeError, MemoryError):
    """Free something, or ask for less."""

    code = "resource_exhausted"


class InternalError(XoeError):
    """A bug in Xoe; please report it."""


class HorovodInternalError(XoeError):
    """The world is broken: shut down and re-form it. Has Horovod's name, so that programs written for it catch it."""


class PeerLostError(HorovodInternalError):
    """A rank died or left."""

    code = "peer_lost"


class OperationTimeoutError(HorovodInternalError, TimeoutError):
    """Peers did not take part within the time limit."""

    code = "timeout"


class UnavailableError(HorovodInternalError):
    """A file, host or program is not available, or the engine was shut down."""

    code = "unavailable"


class NotInitializedError(UnavailableError, ValueError):
    """The call requires ``init()`` first. Also a ValueError, as in Horovod."""


class HostsUpdatedInterrupt(RuntimeError):
    """Hosts were added or removed while training. ``skip_sync``: the state need not be synchronized again."""

    def __init__(self, skip_sync: bool = False) -> None:
        super().__init__("the set of hosts has changed")
        self.skip_sync = skip_sync


class FirstStepWarning(UserWarning):
    """Ranks start from different parameters, or train on the same batches: what the first steps of an optimizer showed."""


def _of_status(code: str, message: str, completed: bool) -> XoeError:
    """The exception for a status of the C interface. ``completed``: an operation failed, on all its ranks."""
    if code == "invalid_argument" and completed:
        return MismatchError(message)
    broken = (PeerLostError, OperationTimeoutError, UnavailableError)
    kinds: tuple[type[XoeError], ...] = (InvalidArgumentError, UnsupportedError, DataLossError, ResourceExhaustedError, *broken)
    return next((kind for kind in kinds if kind.code == code), InternalError)(message)
