"""What the ranks of the world tell each other of their hosts."""

from __future__ import annotations

from xoe import world as _world
from xoe.objects import allgather_object


def is_homogeneous() -> bool:
    """Whether every host has the same number of ranks. The first call is collective."""
    world = _world.current()
    known = getattr(world, "_homogeneous", None)
    if known is None:
        known = len(set(allgather_object(world.local_size, name="xoe.is_homogeneous"))) == 1
        world._homogeneous = known  # type: ignore[attr-defined]
    return bool(known)
