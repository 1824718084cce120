"""Collectives of NumPy arrays, for the bindings: what they need outside of their framework's own programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xoe import _core
from xoe import world as _world
from xoe.process_sets import ProcessSet, global_process_set

Array = Any  # of NumPy, which Xoe itself does not need

_KINDS = _core.KINDS
_BITS = frozenset(("uint16", "uint32", "uint64"))


def as_engine_type(array: Array) -> Array:
    """A view of one of the engine's types: complex numbers as pairs of floats, unsigned integers as signed ones."""
    if array.dtype.kind == "c":
        return array.view(np.float32 if array.dtype.itemsize == 8 else np.float64).reshape(*array.shape, 2)
    return array.view(array.dtype.name[1:]) if array.dtype.name in _BITS else array


def _as_bits(array: Array) -> Array:
    """What can be received by DLPack, where NumPy has no bfloat16: that type is another package's."""
    return array.view(np.int16) if array.dtype.name == "bfloat16" else as_engine_type(array)


def of_engine_type(array: Array, dtype: Any) -> Array:
    """The inverse of :func:`as_engine_type`."""
    if array.dtype == dtype:
        return array
    viewed = array.view(dtype)
    return viewed.reshape(array.shape[:-1]) if dtype.kind == "c" else viewed


def describe(array: Array, out: Array | None = None) -> tuple[int, int, tuple[int, ...], int]:
    """For ``Engine.submit``: addresses of input and result (0: the engine allocates the result), shape, type."""
    return array.ctypes.data, 0 if out is None else out.ctypes.data, array.shape, _core.DTYPES[array.dtype.name]


def _run(tensors: list[Any], request: _core.Request, keep: Any, name: str = "", splits: Any = None) -> _core.Operation:
    operation = _world.current().engine.submit(name, tensors, request, splits, keep)
    operation.wait()
    return operation


def _in_place(arrays: Sequence[Array], request: _core.Request) -> list[Array]:
    """One operation in place, on copies."""
    results = [np.array(array, order="C", copy=True) for array in arrays]
    views = [as_engine_type(result) for result in results]
    if views:
        _run([describe(view, view) for view in views], request, views)
    return results


def allreduce(arrays: Sequence[Array], reduction: str = "average", process_set: ProcessSet = global_process_set) -> list[Array]:
    """New arrays, reduced over the ranks as one operation."""
    request = _core.Request(_KINDS["allreduce"], _core.REDUCTIONS[reduction], process_set=process_set._need())
    return _in_place(arrays, request)


def broadcast(arrays: Sequence[Array], root_rank: int, process_set: ProcessSet = global_process_set) -> list[Array]:
    """New arrays, as ``root_rank`` (a rank of the world) has them; one operation."""
    root = process_set.root(root_rank)
    request = _core.Request(_KINDS["broadcast"], root=root, process_set=process_set._need(), needs_all_ranks=True)
    return _in_place(arrays, request)


def gather(
    kind: str, arrays: Sequence[Array], process_set: int, name: str = "", splits: Sequence[int] | None = None
) -> tuple[list[Array], list[int]]:
    """An allgather or alltoall: the results, and the rows received from each rank."""
    views = [_as_bits(np.ascontiguousarray(array)) for array in arrays]
    request = _core.Request(_KINDS[kind], process_set=process_set, queue_same_name=bool(name))
    operation = _run([describe(view) for view in views], request, views, name, splits)
    results = [
        np.array(np.from_dlpack(result)).view(view.dtype) for result, view in zip(operation.outputs(), views, strict=True)
    ]
    return [
        of_engine_type(result, array.dtype) for result, array in zip(results, arrays, strict=True)
    ], operation.received_splits()
