"""Elastic training: after a failure the ranks form a new version of the world, and continue from the last commit.

This module does not depend on a framework; ``xoe.torch.elastic`` has the states for PyTorch.
"""

from __future__ import annotations

import copy
import functools
import queue
import time
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from xoe import world as _world
from xoe._collective import barrier
from xoe._elastic_parts import ElasticPart
from xoe.errors import HorovodInternalError, HostsUpdatedInterrupt
from xoe.initialize import re_form, shutdown
from xoe.ledger import Ledger
from xoe.objects import allgather_object, broadcast_object

Result = TypeVar("Result")

# Consecutive failures to form the world before giving up.
_ATTEMPTS = 3
_NEWS_TIMEOUT = 10  # seconds


class _HostMessages(queue.SimpleQueue[Any]):
    """What :meth:`State.on_hosts_updated` was told, and what the launcher wants of this rank."""

    def empty(self) -> bool:
        return super().empty() and not (_world.may_change() and _world.change())


class State:
    """The state of a training run. Subclasses define how it is saved, restored and synchronized between ranks.

    bcast_object, get_rank: Horovod's functions, for subclasses that use ``_bcast_object`` and ``_rank``.
    """

    def __init__(self, bcast_object: Callable[..., Any] = broadcast_object, get_rank: Callable[[], int] = _world.rank) -> None:
        self._bcast_object, self._rank = bcast_object, get_rank
        self._host_messages = _HostMessages()
        self._reset_callbacks: list[Callable[[], None]] = []
        self._shared = False  # whether it has been synchronized with the other ranks

    def register_reset_callbacks(self, callbacks: Iterable[Callable[[], None]]) -> None:
        """Adds functions to call when a new version of the world has been formed: to adapt a learning rate, for example."""
        self._reset_callbacks.extend(callbacks)

    def on_reset(self) -> None:
        """Called when a new version of the world has been formed, before the state is synchronized."""
        self._host_messages = _HostMessages()
        self.reset()
        for callback in self._reset_callbacks:
            callback()

    def on_hosts_updated(self, timestamp: float, update_res: int) -> None:
        """Makes all ranks form the world again at the next :meth:`commit` or :meth:`check_host_updates`, in a job whose ranks
        may change. The launcher's changes need no such call. Any thread may call it, on any rank."""
        self._host_messages.put((timestamp, update_res))

    def commit(self) -> None:
        """Saves the state to restore after a failure. This copies it: too expensive after every batch of a large model.

        The number of ranks changes only here and in :meth:`check_host_updates`, which copies nothing.
        """
        self.save()
        self.check_host_updates()

    def check_host_updates(self) -> None:
        """Raises HostsUpdatedInterrupt when the launcher changes the number of ranks (``xoe run --min-np``, or
        ``--pool --gpus MIN:MAX``).

        Collective there: all ranks find out in the same call. A rank that has to leave ends here, with SystemExit.
        """
        if not _world.may_change():
            return
        _world.formed()
        asked = (not self._host_messages.empty(), bool(_world.change()))
        wanted = allgather_object(asked, name="xoe.elastic.change")
        if not any(message for message, _ in wanted):
            return
        # Each host has a page of its own, which tells its ranks soon after those of others whether they stay or leave.
        last = time.monotonic() + _NEWS_TIMEOUT
        while any(change for _, change in wanted) and not _world.change() and time.monotonic() < last:
            time.sleep(0.001)
        if _world.change() == "leave":
            _world.log(f"rank {_world.rank()} leaves: the next world is without it")
            shutdown()
            raise SystemExit(0)
        raise HostsUpdatedInterrupt

    def save(self) -> None:
        """Saves a copy in memory."""
        raise NotImplementedError

    def restore(self) -> None:
        """Restores the last copy."""
        raise NotImplementedError

    def sync(self) -> None:
        """Copies the state of rank 0 to all ranks, or after a restart that of the first rank that survived. Collective."""
        raise NotImplementedError

    def _source(self) -> int:
        """The rank whose state all ranks copy. Collective."""
        shared = allgather_object(self._shared, name="xoe.elastic.shared")
        return shared.index(True) if True in shared else 0

    def reset(self) -> None:
        """Adapts to a new version of the world."""

    def steps_done(self, steps: int = 1) -> None:
        """So many steps were done since the last call, which data sets in the state are told. Callbacks of Keras call it."""


class ObjectState(State):
    """Plain objects, one attribute per keyword, and any number of data sets and ledgers. Copies of objects are deep; data sets
    and ledgers stay, and go on from their place. ``bcast_object``, ``get_rank``: as in :class:`State`.
    """

    def __init__(
        self, bcast_object: Callable[..., Any] = broadcast_object, get_rank: Callable[[], int] = _world.rank, **values: Any
    ) -> None:
        super().__init__(bcast_object, get_rank)
        self._parts = {name: value for name, value in values.items() if isinstance(value, ElasticPart)}
        for name, part in self._parts.items():
            part.follow()
            object.__setattr__(self, name, part)
        self._places = self._places_now()
        self._saved = {name: value for name, value in values.items() if name not in self._parts}
        self._assign()

    def save(self) -> None:
        ledgers = self._ledgers()
        if ledgers:
            # What one rank commits, all have noted; where one could not, nothing is committed here either.
            barrier()
        self._keep()
        for ledger in ledgers:
            ledger.commit()

    def _ledgers(self) -> list[Ledger]:
        return [part for part in self._parts.values() if isinstance(part, Ledger)]

    def _keep(self) -> None:
        """Saves copies; talks to no other rank."""
        self._places = self._places_now()
        self._saved = {name: copy.deepcopy(getattr(self, name)) for name in self._saved}

    def restore(self) -> None:
        self._place_parts(self._places)
        self._assign()

    def sync(self) -> None:
        self._copy_from(self._source())
        self._shared = True

    def reset(self) -> None:
        for part in self._parts.values():
            part.reset()

    def steps_done(self, steps: int = 1) -> None:
        for part in self._parts.values():
            part.steps_done(steps)

    def _copy_from(self, source: int) -> None:
        # What has arrived in part changes nothing.
        places = broadcast_object(self._places_now(), source) if self._parts else {}
        current = {name: getattr(self, name) for name in self._saved}
        saved = broadcast_object(current, source) if self._saved else {}
        self._places, self._saved = places, saved
        self._place_parts(places)
        self._assign()

    def _places_now(self) -> dict[str, Any]:
        return {name: part.state_dict() for name, part in self._parts.items()}

    def _place_parts(self, places: dict[str, Any]) -> None:
        for name, place in places.items():
            self._parts[name].load_state_dict(place)

    def _assign(self) -> None:
        for name, value in self._saved.items():
            setattr(self, name, copy.deepcopy(value))


def _tell_formed() -> None:
    """All ranks have the state: the launcher may count on those that have just joined. Collective."""
    if _world.may_change():
        barrier()
        _world.formed()


def run(function: Callable[..., Result]) -> Callable[..., Result]:
    """Decorates a training function whose first argument is a :class:`State`.

    First, all ranks copy the state of rank 0. When the world breaks (HorovodInternalError: a rank died, an operation timed
    out, a connection was lost), every rank restores its last commit, the ranks form a new version of the world, and the
    function is called again. ``xoe run --restarts N`` restarts a rank that died, and with ``--min-np`` the others go on
    without it; else the launcher ends the job. When the number of ranks changes (:meth:`State.check_host_updates`), nothing
    is restored: it goes on from where it is.
    """
    return run_fn(function, re_form)


def run_fn(func: Callable[..., Result], reset: Callable[[], Any]) -> Callable[..., Result]:
    """:func:`run`, for a framework with a function of its own that leaves the world and joins its next version."""

    @functools.wraps(func)
    def wrapper(state: State, *args: Any, **kwargs: Any) -> Result:
        synchronize, broken, attempts = True, False, 0
        while True:
            try:
                if broken:
                    reset()
                    state.on_reset()
                    broken, attempts = False, 0
                if synchronize:
                    state.sync()
                _tell_formed()
                return func(state, *args, **kwargs)
            except HorovodInternalError as error:
                attempts += 1
                if broken and attempts > _ATTEMPTS:
                    raise
                _world.log(f"re-forming the world: {error}")
                state.restore()
                synchronize = True
            except HostsUpdatedInterrupt as interrupt:
                synchronize = not interrupt.skip_sync
            broken = True

    return wrapper
