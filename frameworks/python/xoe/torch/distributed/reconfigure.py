"""Process groups whose members change: PyTorch's ``init_process_group(enable_reconfigure=True)``.

Each member has a handle, which says on which host it is. The program brings the handles together, by a store or whatever else
it has, and calls ``torch.distributed._reconfigure()`` in each member with the same list and a number that was not used before.
The members then have an engine of their own, whose ranks are the places in the list: they need no store to find each other,
and none of the processes that were members before.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from datetime import timedelta
from typing import Any, NoReturn

import torch.distributed.distributed_c10d as _c10d

from xoe._addresses import host_name
from xoe.errors import HorovodInternalError, InvalidArgumentError, UnavailableError
from xoe.torch.distributed.callbacks import Sequence
from xoe.torch.distributed.group import Group
from xoe.torch.distributed.initialize import ranks_at
from xoe.torch.distributed.members import start_engine
from xoe.torch.distributed.untraced import untraced
from xoe.torch.distributed.work import Work

_KIND = "xoe"


class _Handle:
    """What a member tells the others: ``xoe HOST PID TOKEN``."""

    def __init__(self, text: str) -> None:
        kind, *rest = text.split(" ")
        if kind != _KIND or len(rest) != 3:
            raise InvalidArgumentError(f"reconfigure: {text!r} is no handle of the backend xoe; call get_reconfigure_handle()")
        self.host, self.pid, _ = rest


class _Ended:
    """An operation that has ended."""

    def __init__(self, error: Exception | None) -> None:
        self._error = error

    def poll(self) -> bool:
        return True

    def wait(self) -> None:
        if self._error is not None:
            raise self._error


class _WithoutMembers:
    """In place of all that a group has by its members."""

    def close(self) -> None:
        """There is nothing to close."""

    def __getattr__(self, name: str) -> NoReturn:
        raise UnavailableError(
            "the process group has no members yet: call torch.distributed._reconfigure() before its collectives, as"
            " enable_reconfigure=True demands"
        )


class ReconfigurableGroup(Group):
    """A group without members until :meth:`reconfigure` gives it some, and again when that is called again."""

    supports_reconfigure = True

    def __init__(self, store: Any, rank: int, size: int, name: str, timeout: timedelta) -> None:
        super().__init__(store, rank, size, name, timeout, None)
        self._rank, self._size = rank, size
        self._handle = f"{_KIND} {host_name()} {os.getpid()} {secrets.token_hex(16)}"
        self._used: set[int] = set()
        self._detach()

    def _detach(self) -> None:
        nothing: Any = _WithoutMembers()
        self._members = self._lane = self._shared = self._messages = self._monitored = self._end_of_backward = nothing
        self._one_host = False
        self._has_members = False

    @property
    def job(self) -> str:
        """Names the members, for engines of some of them."""
        return f"{self._members.name}, "

    def getRank(self) -> int:  # noqa: N802
        """This rank's number; before it has members: the one that was given."""
        return self._rank

    def getSize(self) -> int:  # noqa: N802
        """The number of members; before it has any: the one that was given."""
        return self._size

    rank = getRank
    size = getSize

    def get_reconfigure_handle(self) -> str:
        """What the other members need to know of this process. It stays the same."""
        return self._handle

    @untraced
    def reconfigure(self, opts: Any) -> Work:
        """Leaves the members of before, and meets those whose handles are given, as the rank that is the place in a list; of a
        set, all members choose the same order. Blocks until they have come.

        Operations that have not ended fail. If the members do not come in time, the work's wait() raises, the group has no
        members, and may be reconfigured again with another uuid. ``opts.hints``: there are none.
        """
        handles = opts.handles if isinstance(opts.handles, list) else sorted(opts.handles)
        hosts = self._check(handles, opts.uuid)
        self._used.add(opts.uuid)
        timeout = opts.timeout or self._timeout
        rank = handles.index(self._handle)
        told = hashlib.blake2b("\n".join([str(opts.uuid), *handles]).encode(), digest_size=16).hexdigest()
        self._leave()
        try:
            members = start_engine(ranks_at(hosts, rank, told), f"reconfigured {opts.uuid}", self._store, timeout)
        except HorovodInternalError as error:
            return self._ended(_named(error, handles))
        self._rank, self._size, self._aborted, self.error = rank, len(handles), False, None
        self._attach(members, rank, len(handles))
        self._has_members = True
        if self in _c10d._world.pg_group_ranks:
            _c10d._world.pg_group_ranks[self] = {one: one for one in range(len(handles))}
        return self._ended(None)

    def _check(self, handles: list[str], uuid: int) -> list[str]:
        """The hosts of the members."""
        hosts = [_Handle(handle).host for handle in handles]
        if self._handle not in handles:
            raise InvalidArgumentError("reconfigure: this process's own handle is not among those of the members")
        if len(set(handles)) != len(handles):
            raise InvalidArgumentError("reconfigure: a handle is given twice")
        if uuid in self._used:
            raise InvalidArgumentError(f"reconfigure: uuid {uuid} was already used; pass one that was not")
        return hosts

    def _ended(self, error: Exception | None) -> Work:
        return Work([_Ended(error)], None, [], self._completer, Sequence("", ""))

    def _leave(self) -> None:
        if self._has_members:
            self._shared.close()
            self._members.abort()
            self._lane.close()
            self._completer.stop()
            self._detach()

    def abort(self) -> None:
        """Fails all pending operations, here and at the peers; :meth:`reconfigure` makes the group usable again."""
        if self._has_members:
            super().abort()

    def shutdown(self) -> None:
        """Closes the group."""
        self._leave()
        self._completer.stop()


def _named(error: HorovodInternalError, handles: list[str]) -> HorovodInternalError:
    """The error, with the processes that it speaks of."""
    known = {rank: _Handle(handle) for rank, handle in enumerate(handles)}
    named = [f"rank {rank} is process {known[rank].pid} of host {known[rank].host}" for rank in error.ranks if rank in known]
    return type(error)("; ".join([str(error), *named]))
