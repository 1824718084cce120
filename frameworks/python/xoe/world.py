"""The world that this process belongs to: one engine per process, shared by all frameworks.

All functions may be called from any thread.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from xoe._signing import Signer
from xoe.errors import NotInitializedError, UnsupportedError

if TYPE_CHECKING:
    from xoe._core import Engine


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


_world: World | None = None
_on_begin: list[Callable[[], Any]] = []


def begin(world: World) -> None:
    """Makes this the world of this process."""
    global _world
    _world = world
    for call in _on_begin:
        call()


def end() -> World | None:
    """Leaves this process without a world. The one that it had, which is still to be shut down."""
    global _world
    world, _world = _world, None
    return world


def on_begin(call: Callable[[], Any]) -> None:
    """Has this called whenever a world begins from now on."""
    _on_begin.append(call)


@atexit.register
def _leave() -> None:
    """At exit: a rank that fails must end before its peers notice and fail too, so that the launcher reports the cause."""
    if _world is not None:
        _world.engine.leave_at_exit()


def is_initialized() -> bool:
    """Whether :func:`xoe.init` has been called, without a :func:`xoe.shutdown` since."""
    return _world is not None


def is_current(world: World | None) -> bool:
    """Whether ``world`` is the current world of this process."""
    return world is not None and world is _world


def current() -> World:
    """The world of this process. Raises NotInitializedError before :func:`xoe.init`."""
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


_CHANGES = ("", "", "re-form", "leave")  # by xoe_world_change's number


def may_change() -> bool:
    """Whether the launcher may change the number of ranks of this job."""
    return _world is not None and _world.engine.world_change() != 0


def change() -> str:
    """What the launcher wants of this rank, where it changes the number of ranks.

    ``"re-form"``: leave this world and join its next version; ``"leave"``: the next version is without this rank; ``""``:
    go on.
    """
    return _CHANGES[current().engine.world_change()]


def formed() -> None:
    """Tells the launcher, where it changes the number of ranks, that those that have joined have the state of the training."""
    if may_change():
        current().engine.world_formed()


def log(line: str) -> None:
    """Prints a line to standard error."""
    print(f"xoe: {line}", file=sys.stderr, flush=True)
