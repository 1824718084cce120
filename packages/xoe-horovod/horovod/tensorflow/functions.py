"""Broadcasts of ``xoe.tensorflow``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xoe.process_sets import ProcessSet, global_process_set
from xoe.tensorflow import allgather_object, broadcast, broadcast_global_variables, broadcast_object, broadcast_variables


def broadcast_object_fn(
    root_rank: int = 0, session: Any = None, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Callable[[Any], Any]:
    """:func:`broadcast_object` as a function of the object; it needs no session."""
    del session
    return lambda obj: broadcast_object(obj, root_rank, name, process_set)


__all__ = [
    "allgather_object",
    "broadcast",
    "broadcast_global_variables",
    "broadcast_object",
    "broadcast_object_fn",
    "broadcast_variables",
]
