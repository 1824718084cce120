"""Collectives of Python objects, in order with those of programs."""

from __future__ import annotations

from typing import Any

import jax

from xoe import objects as _objects
from xoe.process_sets import ProcessSet, global_process_set


def broadcast_object(
    obj: Any = None, root_rank: int = 0, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Any:
    """As :func:`xoe.objects.broadcast_object`, once the programs that were called before it have communicated."""
    jax.effects_barrier()
    return _objects.broadcast_object(obj, root_rank, name, process_set)


def allgather_object(obj: Any, name: str | None = None, process_set: ProcessSet = global_process_set) -> list[Any]:
    """As :func:`xoe.objects.allgather_object`, once the programs that were called before it have communicated."""
    jax.effects_barrier()
    return _objects.allgather_object(obj, name, process_set)
