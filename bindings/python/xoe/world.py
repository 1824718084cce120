"""The group of ranks that this process belongs to: one engine for the process, whatever framework uses it.

All functions may be called by any thread; ``init`` and ``shutdown`` by one at a time.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from xoe.errors import InvalidArgumentError, NotInitializedError, PeerLostError, UnsupportedError

if TYPE_CHECKING:
    from xoe._core import Engine
    from xoe.process_sets import ProcessSet


class World:
    """An engine, and where this process stands in it."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        topology = engine.topology()
        self.rank, self.size, self.local_rank, self.local_size, self.cross_rank, self.cross_size = topology
        self._takes_gpu: bool | None = None

    def takes_gpu(self) -> bool:
        """Whether tensors of this process's GPU are reduced where they are, by NCCL. Else they go through host memory.

        Raises UnsupportedError where they cannot and XOE_GPU=nccl wants it.
        """
        if self._takes_gpu is None:
            refusal = self.engine.gpu_refusal()
            if refusal and os.environ.get("XOE_GPU") == "nccl":
                raise UnsupportedError(f"XOE_GPU=nccl: {refusal}")
            self._takes_gpu = not refusal
        return self._takes_gpu


_CAUSE_PATIENCE = 0.3  # seconds

_lock = threading.Lock()
_world: World | None = None
_sets_of_init: Sequence[ProcessSet] = ()


def init(
    comm: Any = None, process_sets: Sequence[ProcessSet] | str | None = None, *, start_timeout: float | None = None
) -> None:
    """Joins the group that the launcher described in the environment; without one, a group of this process alone.

    Collective; a second call does nothing until :func:`shutdown`.

    comm: None for all ranks, or this rank's group: a list of ranks of the job, or an mpi4py communicator. Then ``rank()`` and
        ``size()`` are those of the group, whose members name the same one; all ranks of the job call init.
    process_sets: sets to make at once, the same on all ranks; or ``"dynamic"``, which Horovod wants before sets may be
        added later, and which is not needed here.
    start_timeout: seconds to wait for the other ranks (default: XOE_START_TIMEOUT, or 60).

    Raises OperationTimeoutError when not all ranks appear, InvalidArgumentError for a malformed environment.
    """
    global _world, _sets_of_init
    from xoe import process_sets as sets

    if isinstance(process_sets, str):
        if process_sets.lower() != "dynamic":
            raise InvalidArgumentError(f"process_sets is {process_sets!r}; give a list of ProcessSet, or 'dynamic'")
        process_sets = None
    with _lock:
        if _world is not None:
            return
        from xoe._core import Engine

        world = _world = World(Engine(start_timeout, _ranks_of(comm)))
        _sets_of_init = tuple(process_sets or ())
        sets._begin(world)
        _show_cause_first()
    try:
        for process_set in _sets_of_init:
            sets.add_process_set(process_set)
    except BaseException:
        shutdown()
        raise


def _ranks_of(comm: Any) -> list[int]:
    """The ranks of the job that ``init(comm=...)`` names; none: all of them."""
    if comm is None:
        return []
    if not hasattr(comm, "Get_group"):
        return [int(rank) for rank in comm]
    from mpi4py import MPI

    group, everybody = comm.Get_group(), MPI.COMM_WORLD.Get_group()
    return list(MPI.Group.Translate_ranks(group, range(group.Get_size()), everybody))


def shutdown() -> None:
    """Leaves the group. What is pending fails here and at the peers. :func:`init` may be called again."""
    global _world
    from xoe import process_sets as sets

    with _lock:
        if _world is None:
            return
        engine = _world.engine
        _world = None
        sets._end()
        engine.shutdown()


@atexit.register
def _leave() -> None:
    """When Python ends: a rank that fails must be seen to end before its peers, which cannot go on without it."""
    if _world is not None:
        _world.engine.leave_at_exit()


def _show_cause_first() -> None:
    """A rank that fails only because another did waits a moment before it says so: the other's traceback comes first, and the
    launcher has mostly ended this one by then."""
    show = sys.excepthook
    if getattr(show, "_xoe", False):
        return

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if isinstance(error, PeerLostError):
            sys.stdout.flush()
            time.sleep(_CAUSE_PATIENCE)
        show(kind, error, trace)

    hook._xoe = True  # type: ignore[attr-defined]
    sys.excepthook = hook


def is_initialized() -> bool:
    """Whether :func:`init` was called, and not :func:`shutdown` since."""
    return _world is not None


def is_current(world: World | None) -> bool:
    """Whether this process is in ``world``, and not in another one since."""
    return world is not None and world is _world


def current() -> World:
    """The world of this process. Raises NotInitializedError before :func:`init`."""
    if _world is None:
        raise NotInitializedError("Xoe has not been initialized; call init() first")
    return _world


def rank() -> int:
    """This process among all, from 0."""
    return current().rank


def size() -> int:
    """The number of processes."""
    return current().size


def local_rank() -> int:
    """This process among those of its host, from 0."""
    return current().local_rank


def local_size() -> int:
    """The number of processes on this host."""
    return current().local_size


def cross_rank() -> int:
    """This host among those that have a rank with this local rank."""
    return current().cross_rank


def cross_size() -> int:
    """The number of hosts that have a rank with this local rank."""
    return current().cross_size


def is_homogeneous() -> bool:
    """Whether every host has the same number of ranks. Collective the first time."""
    world = current()
    known = getattr(world, "_homogeneous", None)
    if known is None:
        from xoe.objects import allgather_object

        known = len(set(allgather_object(world.local_size, name="xoe.is_homogeneous"))) == 1
        world._homogeneous = known  # type: ignore[attr-defined]
    return bool(known)


def start_timeline(file_path: str, mark_cycles: bool = False) -> None:
    """Writes a Chrome trace to ``file_path`` from here on; collective. There are no cycles: ``mark_cycles`` is ignored."""
    del mark_cycles
    current().engine.start_timeline(file_path)


def stop_timeline() -> None:
    """Ends the trace of this rank."""
    current().engine.stop_timeline()


def metrics() -> str:
    """Counters of the engine, in Prometheus's text format."""
    return current().engine.metrics()


# ---- After a failure


def form_again() -> None:
    """Leaves the broken group and joins the next one, with the process sets that :func:`init` was given."""
    sets = _sets_of_init
    shutdown()
    init(process_sets=sets)


def say(line: str) -> None:
    """One line on standard error."""
    print(f"xoe: {line}", file=sys.stderr, flush=True)
