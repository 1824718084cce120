"""Process sets: groups of ranks that run collectives of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from xoe import world as _world
from xoe.errors import InvalidArgumentError

if TYPE_CHECKING:
    from xoe.world import World


class ProcessSet:
    """A group of ranks, for :func:`add_process_set` or ``init(process_sets=[...])``, and then for operations.

    Members are ranks of the world; their ranks in the set count from 0, in the order given.
    """

    def __init__(self, ranks_or_comm: Sequence[int] | Any) -> None:
        if hasattr(ranks_or_comm, "Get_size"):
            raise InvalidArgumentError("pass the ranks of the process set as a list; MPI communicators are not supported")
        self._given = tuple(int(rank) for rank in ranks_or_comm)
        self.process_set_id: int | None = None
        self._ranks: tuple[int, ...] = ()
        self._rank = -1

    @property
    def ranks(self) -> list[int] | None:
        """World ranks by set rank; None until the set has been added."""
        return list(self._ranks) if self.process_set_id is not None else list(self._given) or None

    def _attach(self, process_set_id: int, ranks: Sequence[int], own_rank: int) -> None:
        self.process_set_id = process_set_id
        self._ranks = tuple(ranks)
        self._rank = self._ranks.index(own_rank) if own_rank in self._ranks else -1

    def _detach(self) -> None:
        self.process_set_id = None
        self._ranks = ()
        self._rank = -1

    def _need(self) -> int:
        if self.process_set_id is None:
            _world.current()  # raises the better message before init()
            raise InvalidArgumentError(f"{self!r} has not been added; call add_process_set() on all ranks")
        return self.process_set_id

    def included(self) -> bool:
        """Whether this process belongs to the set."""
        self._need()
        return self._rank >= 0

    def rank(self) -> int:
        """This process's rank in the set. Raises InvalidArgumentError if it is not a member."""
        self._need()
        if self._rank < 0:
            raise InvalidArgumentError(f"rank {_world.rank()} is not in {self!r}")
        return self._rank

    def size(self) -> int:
        """The number of ranks in the set."""
        self._need()
        return len(self._ranks)

    def _stays_alone(self) -> bool:
        """Whether it has one rank, and the job no other one later: programs that are traced may then leave collectives out."""
        return self.size() == 1 and not _world.may_change()

    def root(self, world_rank: int) -> int:
        """The set rank of a rank of the world."""
        self._need()
        try:
            return self._ranks.index(world_rank)
        except ValueError:
            raise InvalidArgumentError(f"rank {world_rank} is not in {self!r}") from None

    def __repr__(self) -> str:
        if self.process_set_id == 0:
            return "ProcessSet(all ranks)"
        return f"ProcessSet(ranks {', '.join(map(str, self._ranks or self._given))})"

    def __reduce__(self) -> tuple[Any, ...]:
        if self is global_process_set:
            return (_global, ())
        return (ProcessSet, (list(self._ranks or self._given),))


global_process_set = ProcessSet([])

_added: list[ProcessSet] = []


def _global() -> ProcessSet:
    return global_process_set


def begin(world: World) -> None:
    """Gives the set of all ranks the ranks of a world that begins."""
    global_process_set._attach(0, range(world.size), world.rank)


def detach_all() -> None:
    """Forgets the sets of a world that has ended."""
    for process_set in [global_process_set, *_added]:
        process_set._detach()
    _added.clear()


def add_process_set(process_set: ProcessSet | Sequence[int]) -> ProcessSet:
    """Adds a process set, and returns it. Collective over the world: all ranks call it, also those that are not members, in
    the same order.
    """
    if not isinstance(process_set, ProcessSet):
        process_set = ProcessSet(process_set)
    if process_set.process_set_id is not None:
        raise InvalidArgumentError(f"{process_set!r} has been added before")
    world = _world.current()
    engine = world.engine
    number = engine.add_process_set(list(process_set._given))
    process_set._attach(number, engine.process_set_ranks(number), world.rank)
    _added.append(process_set)
    return process_set


def remove_process_set(process_set: ProcessSet) -> bool:
    """Removes a set; collective over the world. False: it is the set of all ranks, or has not been added."""
    if process_set is global_process_set or process_set.process_set_id is None:
        return False
    _world.current().engine.remove_process_set(process_set.process_set_id)
    process_set._detach()
    _added.remove(process_set)
    return True
