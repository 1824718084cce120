"""Collectives of NDArrays in host memory, with Horovod's names and meanings.

Each call waits until MXNet has computed its arrays and until the operation has completed. ``priority`` is accepted and has
no effect.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mxnet as mx
import numpy as np

from xoe import _arrays, _core
from xoe import world as _world
from xoe._collective import engine_names, need_parts, row_counts
from xoe.errors import InvalidArgumentError, UnsupportedError
from xoe.process_sets import ProcessSet, global_process_set
from xoe.reduction import Average, ReduceOp, choose


class _Memory:
    """The memory of an NDArray, for NumPy. MXNet has computed it by then, and no operation of its reads it."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __dlpack__(self, **_: Any) -> Any:
        return mx.nd.to_dlpack_for_write(self._array)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


def _views(arrays: Sequence[Any], what: str) -> list[Any]:
    views = []
    for array in arrays:
        if not isinstance(array, mx.nd.NDArray):
            raise TypeError(f"expected an mxnet.nd.NDArray, got {type(array).__name__}; pass mx.nd.array(...)")
        if array.context.device_type != "cpu":
            raise UnsupportedError(f"{what} of an array on {array.context}: copy it with as_in_context(mx.cpu()) first")
        if np.dtype(array.dtype).name not in _core.DTYPES:
            raise UnsupportedError(f"{what} of {np.dtype(array.dtype).name}: Xoe does not support this type")
        views.append(np.from_dlpack(_Memory(array)))
    return views


def _copy(array: Any) -> Any:
    """MXNet's own copy() refuses arrays without dimensions."""
    is_scalar = isinstance(array, mx.nd.NDArray) and array.shape == ()
    return mx.nd.array(array.asnumpy(), ctx=array.context, dtype=array.dtype) if is_scalar else array.copy()


def _run(kind: str, arrays: Sequence[Any], name: str | None, process_set: ProcessSet, **options: Any) -> None:
    """An operation in place."""
    views = _views(arrays, kind)
    request = _core.Request(_core.KINDS[kind], process_set=process_set._need(), queue_same_name=bool(name), **options)
    engine = _world.current().engine
    engine.submit(name or "", [_arrays.describe(view, view) for view in views], request, None, views).wait()


def grouped_allreduce_(
    tensors: Sequence[Any],
    average: bool | None = None,
    name: str | None = None,
    priority: int = 0,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    op: ReduceOp | None = None,
) -> list[Any]:
    """Reduces the arrays over all ranks in place, as one operation.

    op: default Average. prescale_factor multiplies the inputs, postscale_factor the results; float types only.
    """
    del priority
    chosen = choose(op, average)
    kind, reduction = engine_names(chosen, "allreduce")
    scales = {"prescale": float(prescale_factor), "postscale": float(postscale_factor)}
    _run(kind, tensors, name, process_set, reduce=_core.REDUCTIONS[reduction], **scales)
    return list(tensors)


def grouped_allreduce(tensors: Sequence[Any], *arguments: Any, **options: Any) -> list[Any]:
    """:func:`grouped_allreduce_` into new arrays."""
    return grouped_allreduce_([_copy(tensor) for tensor in tensors], *arguments, **options)


def allreduce_(tensor: Any, *arguments: Any, **options: Any) -> Any:
    """Reduces the array over all ranks in place; the arguments are those of :func:`grouped_allreduce_`."""
    return grouped_allreduce_([tensor], *arguments, **options)[0]


def allreduce(tensor: Any, *arguments: Any, **options: Any) -> Any:
    """:func:`allreduce_` into a new array."""
    return allreduce_(_copy(tensor), *arguments, **options)


def broadcast_(
    tensor: Any, root_rank: int, name: str | None = None, priority: int = 0, process_set: ProcessSet = global_process_set
) -> Any:
    """Overwrites the array with the one of ``root_rank`` (a rank of the world)."""
    del priority
    _run("broadcast", [tensor], name, process_set, root=process_set.root(root_rank), needs_all_ranks=True)
    return tensor


def broadcast(tensor: Any, root_rank: int, *arguments: Any, **options: Any) -> Any:
    """:func:`broadcast_` into a new array."""
    return broadcast_(_copy(tensor), root_rank, *arguments, **options)


def _gather(
    kind: str, tensors: Sequence[Any], name: str | None, process_set: ProcessSet, splits: Any = None
) -> tuple[list[Any], list[int]]:
    results, received = _arrays.gather(kind, _views(tensors, kind), process_set._need(), name or "", splits)
    return [mx.nd.array(result, dtype=result.dtype) for result in results], received


def grouped_allgather(
    tensors: Sequence[Any], name: str | None = None, priority: int = 0, process_set: ProcessSet = global_process_set
) -> list[Any]:
    """Several :func:`allgather` as one operation."""
    del priority
    return _gather("allgather", tensors, name, process_set)[0]


def allgather(tensor: Any, name: str | None = None, priority: int = 0, process_set: ProcessSet = global_process_set) -> Any:
    """The ranks' arrays one after the other along the first dimension, which may differ between ranks."""
    return grouped_allgather([tensor], name, priority, process_set)[0]


def _row_counts(splits: Any) -> list[int]:
    return row_counts(splits, splits.asnumpy().tolist() if isinstance(splits, mx.nd.NDArray) else splits)


def alltoall(
    tensor: Any,
    splits: Any = None,
    name: str | None = None,
    priority: int = 0,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Sends ``splits[r]`` rows of the first dimension to each rank r of the set; equal parts without ``splits``.

    Returns the received rows, in the order of ranks; with ``splits``, a pair of them and of the number of rows from each rank.
    """
    del priority
    rows = None if splits is None else _row_counts(splits)
    (result,), received = _gather("alltoall", [tensor], name, process_set, rows)
    return result if rows is None else (result, mx.nd.array(received, dtype="int32"))


def grouped_reducescatter(
    tensors: Sequence[Any],
    op: ReduceOp = Average,
    name: str | None = None,
    priority: int = 0,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> list[Any]:
    """This rank's parts of the reduced arrays. The first dimension is divided evenly; the first ranks get one row more."""
    need_parts(op)
    if any(tensor.shape == () for tensor in tensors):
        raise InvalidArgumentError("reducescatter works on the first dimension, and a scalar has none; reshape it to (1,)")
    scales = {"prescale_factor": prescale_factor, "postscale_factor": postscale_factor}
    reduced = grouped_allreduce(tensors, name=name, priority=priority, process_set=process_set, op=ReduceOp(op), **scales)
    rank, size = process_set.rank(), process_set.size()
    parts = []
    for array in reduced:
        rows, longer = divmod(array.shape[0], size)
        first = rank * rows + min(rank, longer)
        parts.append(array[first : first + rows + (rank < longer)])
    return parts


def reducescatter(tensor: Any, *arguments: Any, **options: Any) -> Any:
    """:func:`grouped_reducescatter` of one array."""
    return grouped_reducescatter([tensor], *arguments, **options)[0]
