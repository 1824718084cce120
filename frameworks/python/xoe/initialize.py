"""Joining and leaving the world that this process belongs to.

All functions may be called from any thread. Operations of other threads that :func:`shutdown` meets end with an error.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from xoe import process_sets as _sets
from xoe import world as _world
from xoe._uncaught import watch_uncaught
from xoe.errors import InvalidArgumentError
from xoe.process_sets import ProcessSet

_lock = threading.Lock()
_init_arguments: dict[str, Any] = {}


def init(
    comm: Any = None, process_sets: Sequence[ProcessSet] | str | None = None, *, start_timeout: float | None = None
) -> None:
    """Joins the world that the launcher describes in the environment; without a launcher, a world of this process alone.

    Collective; a second call does nothing until :func:`shutdown`.

    comm: None for all ranks, or this rank's group: a list of ranks of the job, or an mpi4py communicator. ``rank()`` and
        ``size()`` then refer to the group; its members pass the same one, and all ranks of the job call init.
    process_sets: sets to create at once, the same on all ranks; or ``"dynamic"``, which Horovod requires for adding sets
        later, and which has no effect here.
    start_timeout: seconds to wait for the other ranks (default: XOE_START_TIMEOUT, or 60).

    Raises OperationTimeoutError when not all ranks call init in time, InvalidArgumentError for a malformed environment.
    """
    global _init_arguments
    if isinstance(process_sets, str):
        if process_sets.lower() != "dynamic":
            raise InvalidArgumentError(f"process_sets is {process_sets!r}; pass a list of ProcessSet, or 'dynamic'")
        process_sets = None
    with _lock:
        if _world.is_initialized():
            return
        from xoe._core import Engine, keep_freed_memory, share_engine

        keep_freed_memory()

        ranks = _ranks_of(comm)
        world = _world.World(Engine(start_timeout, ranks, tells_formed=True), ranks)
        given = tuple(process_sets or ())
        _init_arguments = {"comm": ranks or None, "process_sets": given, "start_timeout": start_timeout}
        _sets.begin(world)
        share_engine(world.engine)
        _world.begin(world)
        watch_uncaught()
    try:
        for process_set in given:
            _sets.add_process_set(process_set)
    except BaseException:
        shutdown()
        raise


def _ranks_of(comm: Any) -> list[int]:
    """The ranks of the job in ``init(comm=...)``; empty: all of them."""
    if comm is None:
        return []
    if not hasattr(comm, "Get_group"):
        return [int(rank) for rank in comm]
    from mpi4py import MPI

    group, world = comm.Get_group(), MPI.COMM_WORLD.Get_group()
    return list(MPI.Group.Translate_ranks(group, range(group.Get_size()), world))


def shutdown() -> None:
    """Leaves the world. Pending operations fail here and at the peers. :func:`init` may be called again."""
    from xoe._core import share_engine

    with _lock:
        world = _world.end()
        if world is None:
            return
        _sets.detach_all()
        share_engine(None)
        world.engine.shutdown()


def re_form() -> None:
    """Leaves the broken world and joins its next version, with the arguments that were passed to :func:`init`."""
    shutdown()
    init(**_init_arguments)
