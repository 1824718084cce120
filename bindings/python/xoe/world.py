"""The world that this process belongs to: one engine per process, shared by all frameworks.

All functions may be called from any thread. Operations of other threads that :func:`shutdown` meets end with an error.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from xoe._failures import comes_from_peer
from xoe._signing import Signer
from xoe.errors import InvalidArgumentError, NotInitializedError, PeerLostError, UnsupportedError

if TYPE_CHECKING:
    from xoe._core import Engine
    from xoe.process_sets import ProcessSet


class World:
    """An engine and this process's topology in it."""

    def __init__(self, engine: Engine, group: Sequence[int] = ()) -> None:
        self.engine = engine
        topology = engine.topology()
        self.rank, self.size, self.local_rank, self.local_size, self.cross_rank, self.cross_size = topology
        self.signer = Signer(engine.key(), group)
        self._takes_gpu: bool | None = None

    def takes_gpu(self) -> bool:
        """Whether the engine takes this process's GPU tensors. Otherwise they are copied to host memory and back.

        Raises UnsupportedError where it does not but XOE_GPU=nccl demands it.
        """
        if self._takes_gpu is None:
            refusal = self.engine.gpu_refusal()
            if refusal and os.environ.get("XOE_GPU") == "nccl":
                raise UnsupportedError(f"XOE_GPU=nccl: {refusal}")
            self._takes_gpu = not refusal
        return self._takes_gpu


_CAUSE_DELAY = 0.3  # seconds

_lock = threading.Lock()
_world: World | None = None
_init_arguments: dict[str, Any] = {}
_on_begin: list[Callable[[], Any]] = []


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
    global _world, _init_arguments
    from xoe import process_sets as sets

    if isinstance(process_sets, str):
        if process_sets.lower() != "dynamic":
            raise InvalidArgumentError(f"process_sets is {process_sets!r}; pass a list of ProcessSet, or 'dynamic'")
        process_sets = None
    with _lock:
        if _world is not None:
            return
        from xoe._core import Engine, keep_freed_memory, share_engine

        keep_freed_memory()

        ranks = _ranks_of(comm)
        world = _world = World(Engine(start_timeout, ranks), ranks)
        given = tuple(process_sets or ())
        _init_arguments = {"comm": ranks or None, "process_sets": given, "start_timeout": start_timeout}
        sets._begin(world)
        share_engine(world.engine)
        for begin in _on_begin:
            begin()
        _watch_uncaught()
    try:
        for process_set in given:
            sets.add_process_set(process_set)
    except BaseException:
        shutdown()
        raise


def on_begin(call: Callable[[], Any]) -> None:
    """Has this called whenever a world begins from now on."""
    _on_begin.append(call)


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
    global _world
    from xoe import process_sets as sets
    from xoe._core import share_engine

    with _lock:
        if _world is None:
            return
        engine = _world.engine
        _world = None
        sets._end()
        share_engine(None)
        engine.shutdown()


@atexit.register
def _leave() -> None:
    """At exit: a rank that fails must end before its peers notice and fail too, so that the launcher reports the cause."""
    if _world is not None:
        _world.engine.leave_at_exit()


def _watch_uncaught() -> None:
    """An exception that nothing catches ends this rank. If another rank is its cause, its traceback is delayed: the cause
    is printed first, and usually the launcher has ended this rank by then. Else the peers are told at once, since the
    interpreter may take seconds to end."""
    show = sys.excepthook
    if getattr(show, "_xoe", False):
        return

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if isinstance(error, PeerLostError):
            sys.stdout.flush()
            time.sleep(_CAUSE_DELAY)
            if " failed: " in str(error):  # the launcher lets that rank end first: one line is enough here
                error, trace = error.with_traceback(None), None
        try:
            show(kind, error, trace)
        finally:
            with contextlib.suppress(Exception):  # whatever the error's own text and the peers do, this process ends
                if _ends_by(error) and not comes_from_peer(error):
                    _abort(f"{kind.__name__}: {error}".partition("\n")[0])

    hook._xoe = True  # type: ignore[attr-defined]
    sys.excepthook = hook


def _ends_by(error: BaseException) -> bool:
    """Whether the interpreter ends because of the error: programs also call the hook to print one that they handled."""
    if getattr(sys, "last_value", None) is not error or isinstance(error, KeyboardInterrupt):
        return False
    if hasattr(sys, "ps1") or sys.flags.interactive or sys.flags.inspect:
        return False
    here = threading.current_thread()
    return here is threading.main_thread() and all(thread is here or thread.daemon for thread in threading.enumerate())


def _abort(why: str) -> None:
    world = _world
    if world is not None:
        world.engine.abort(why.encode("utf-8", "replace").decode())


def is_initialized() -> bool:
    """Whether :func:`init` has been called, without a :func:`shutdown` since."""
    return _world is not None


def is_current(world: World | None) -> bool:
    """Whether ``world`` is the current world of this process."""
    return world is not None and world is _world


def current() -> World:
    """The world of this process. Raises NotInitializedError before :func:`init`."""
    if _world is None:
        raise NotInitializedError("Xoe has not been initialized; call init() first")
    return _world


def rank() -> int:
    """This process's number in the world, from 0."""
    return current().rank


def size() -> int:
    """The number of ranks in the world."""
    return current().size


def local_rank() -> int:
    """This rank's number on its host, from 0."""
    return current().local_rank


def local_size() -> int:
    """The number of ranks on this host."""
    return current().local_size


def cross_rank() -> int:
    """This rank's number among the ranks with its local rank, one per host."""
    return current().cross_rank


def cross_size() -> int:
    """The number of ranks with this local rank, one per host."""
    return current().cross_size


def is_homogeneous() -> bool:
    """Whether every host has the same number of ranks. The first call is collective."""
    world = current()
    known = getattr(world, "_homogeneous", None)
    if known is None:
        from xoe.objects import allgather_object

        known = len(set(allgather_object(world.local_size, name="xoe.is_homogeneous"))) == 1
        world._homogeneous = known  # type: ignore[attr-defined]
    return bool(known)


def start_timeline(file_path: str, mark_cycles: bool = False) -> None:
    """Starts writing a Chrome trace to rank 0's ``file_path``; collective. Xoe has no cycles: ``mark_cycles`` is ignored."""
    del mark_cycles
    current().engine.start_timeline(file_path)


def stop_timeline() -> None:
    """Ends the trace of this rank."""
    current().engine.stop_timeline()


def metrics() -> str:
    """The engine's counters, in Prometheus's text format."""
    return current().engine.metrics()


# ---- After a failure


def re_form() -> None:
    """Leaves the broken world and joins its next version, with the arguments that were passed to :func:`init`."""
    shutdown()
    init(**_init_arguments)


_WISHES = ("", "", "re-form", "leave")  # by xoe_world_wish's number


def may_change() -> bool:
    """Whether the launcher may change the number of ranks of this job."""
    return _world is not None and _world.engine.world_wish() != 0


def wish() -> str:
    """What the launcher wants of this rank, where it changes the number of ranks.

    ``"re-form"``: leave this world and join its next version; ``"leave"``: the next version is without this rank; ``""``:
    go on.
    """
    return _WISHES[current().engine.world_wish()]


def log(line: str) -> None:
    """Prints a line to standard error."""
    print(f"xoe: {line}", file=sys.stderr, flush=True)
