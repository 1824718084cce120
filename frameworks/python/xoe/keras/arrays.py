"""Collectives of values, outside of a model's programs: metrics, learning rates, numbers of samples."""

from __future__ import annotations

from typing import Any

from xoe import _arrays
from xoe import objects as _objects
from xoe.errors import InvalidArgumentError
from xoe.keras.versions import to_numpy, wait_for_programs
from xoe.process_sets import ProcessSet, global_process_set
from xoe.reduction import Adasum, Average, ReduceOp


def allreduce(value: Any, name: str | None = None, op: ReduceOp = Average, process_set: ProcessSet = global_process_set) -> Any:
    """A number, array or tensor, reduced over all ranks, as a NumPy array."""
    del name
    if op is Adasum:
        raise InvalidArgumentError("allreduce of values does not support Adasum")
    wait_for_programs()
    return _arrays.allreduce([to_numpy(value)], ReduceOp(op).name.lower(), process_set)[0]


def allgather(value: Any, name: str | None = None, process_set: ProcessSet = global_process_set) -> Any:
    """The ranks' arrays one after the other along the first dimension, which may differ between ranks."""
    array = to_numpy(value)
    if array.ndim == 0:
        raise InvalidArgumentError("allgather works on the first dimension, and a scalar has none; reshape it to (1,)")
    wait_for_programs()
    return _arrays.gather("allgather", [array], process_set._need(), name or "")[0][0]


def broadcast(value: Any, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set) -> Any:
    """The array of ``root_rank`` (a rank of the world)."""
    del name
    wait_for_programs()
    return _arrays.broadcast([to_numpy(value)], root_rank, process_set)[0]


def broadcast_object(
    obj: Any = None, root_rank: int = 0, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Any:
    """As :func:`xoe.objects.broadcast_object`, once what was called before it has communicated."""
    wait_for_programs()
    return _objects.broadcast_object(obj, root_rank, name, process_set)


def allgather_object(obj: Any, name: str | None = None, process_set: ProcessSet = global_process_set) -> list[Any]:
    """As :func:`xoe.objects.allgather_object`, once what was called before it has communicated."""
    wait_for_programs()
    return _objects.allgather_object(obj, name, process_set)
