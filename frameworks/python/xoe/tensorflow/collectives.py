"""Collectives of tensors, eagerly and in ``tf.function``, with Horovod's names and meanings.

All have gradients where their operation is linear. In a graph, operations are named after their place in it, which is the
same on all ranks that make the same graph; ``name`` chooses another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from xoe import _collective
from xoe._call import run_by_type
from xoe._collective import need_parts, need_type
from xoe.errors import InvalidArgumentError, UnsupportedError
from xoe.first_step import Parts
from xoe.process_sets import ProcessSet, global_process_set
from xoe.reduction import Average, ReduceOp, Sum, choose
from xoe.tensorflow.compression import Compression
from xoe.tensorflow.operations import Call, received_splits, run
from xoe.tensorflow.topology import size_of


def _as_tensors(values: Sequence[Any], kind: str, op: ReduceOp | None = None) -> list[Any]:
    """What the operation works on, if it supports their types."""
    tensors = [tf.convert_to_tensor(value) for value in values]
    for tensor in tensors:
        need_type(tensor.dtype.name, kind, op)
    return tensors


def grouped_allreduce(
    tensors: Sequence[Any],
    average: bool | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    name: str | None = None,
) -> list[Any]:
    """Several :func:`allreduce` as one operation; they complete together."""
    del device_dense, device_sparse
    op = choose(op, average)
    scales = (prescale_factor, postscale_factor)
    if any(isinstance(tensor, tf.IndexedSlices) for tensor in tensors):
        return [_reduce_one(tensor, compression, op, scales, process_set, None) for tensor in tensors]
    return reduce_dense(tensors, compression, op, scales, process_set, name)


def reduce_dense(
    tensors: Sequence[Any],
    compression: Any,
    op: ReduceOp,
    scales: tuple[float, float],
    process_set: ProcessSet,
    name: str | None = None,
    watch: Parts | None = None,
) -> list[Any]:
    """As :func:`grouped_allreduce`. scales: before and after the reduction. watch: of the step that the tensors belong to."""
    pairs = [compression.compress(tf.convert_to_tensor(tensor)) for tensor in tensors]
    given = _as_tensors([tensor for tensor, _ in pairs], "allreduce", op)
    more = {"compression": compression.wire, "name": name or "", "watch": watch}
    call = Call.reducing("allreduce", process_set, op, scales, **more)
    results = run_by_type(call, given, [tensor.dtype.name for tensor in given], run)
    return [compression.decompress(result, context) for result, (_, context) in zip(results, pairs, strict=True)]


def allreduce(
    tensor: Any,
    average: bool | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """The tensor, reduced over all ranks.

    op: default Average. prescale_factor multiplies the input, postscale_factor the result; float types only. IndexedSlices
    (gradients of embeddings) are gathered, not summed, and ``op`` is Average or Sum. device_dense, device_sparse: not needed.
    """
    del device_dense, device_sparse
    return _reduce_one(tensor, compression, choose(op, average), (prescale_factor, postscale_factor), process_set, name)


def _reduce_one(
    tensor: Any, compression: Any, op: ReduceOp, scales: tuple[float, float], process_set: ProcessSet, name: str | None
) -> Any:
    if isinstance(tensor, tf.IndexedSlices):
        return _sparse_allreduce(tensor, op, scales[0] * scales[1], process_set, name)
    return reduce_dense([tensor], compression, op, scales, process_set, name)[0]


def _sparse_allreduce(slices: Any, op: ReduceOp, factor: float, process_set: ProcessSet, name: str | None) -> Any:
    if op not in (Average, Sum):
        raise UnsupportedError(f"{op.name} of IndexedSlices; there are Average and Sum, or tf.convert_to_tensor() it first")
    values, indices = grouped_allgather([slices.values, slices.indices], name=name, process_set=process_set)
    if op is Average:
        values = values / size_of(process_set, values.dtype)  # integers become floats, as in Horovod
    if factor != 1.0:
        values = values * tf.cast(factor, values.dtype)
    return tf.IndexedSlices(values, indices, slices.dense_shape)


def grouped_allgather(
    tensors: Sequence[Any], name: str | None = None, process_set: ProcessSet = global_process_set
) -> list[Any]:
    """Several :func:`allgather` as one operation."""
    given = _as_tensors(tensors, "allgather")
    return run(Call.of("allgather", process_set, name=name or ""), given)


def allgather(tensor: Any, name: str | None = None, process_set: ProcessSet = global_process_set) -> Any:
    """The ranks' tensors one after the other along the first dimension, which may differ between ranks."""
    return grouped_allgather([tensor], name, process_set)[0]


def broadcast(
    tensor: Any,
    root_rank: int,
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """The tensor of ``root_rank`` (a rank of the world)."""
    del ignore_name_scope
    return _broadcast([tensor], root_rank, name, process_set)[0]


def _broadcast(values: Sequence[Any], root_rank: int, name: str | None, process_set: ProcessSet) -> list[Any]:
    given = _as_tensors(values, "broadcast")
    return run(Call.of("broadcast", process_set, root=process_set.root(root_rank), name=name or ""), given)


def broadcast_(
    variables: Sequence[Any], root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> list[Any]:
    """Assigns the values of ``root_rank`` (a rank of the world) to the variables, as one operation; the variables' new
    values."""
    results = _broadcast(variables, root_rank, name, process_set)
    return [variable.assign(result) for variable, result in zip(variables, results, strict=True)]


def broadcast_variables(
    variables: Sequence[Any], root_rank: int = 0, process_set: ProcessSet = global_process_set, inplace: bool = False
) -> Any:
    """Assigns the values of ``root_rank`` (a rank of the world) to the variables; one operation for all."""
    del inplace
    assigned = broadcast_(list(variables), root_rank, process_set=process_set)
    return None if tf.executing_eagerly() else tf.group(*assigned)


def alltoall(
    tensor: Any,
    splits: Any = None,
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Sends ``splits[r]`` rows of the first dimension to each rank r of the set; equal parts without ``splits``.

    Returns the received rows, in the order of ranks; with ``splits``, a pair of them and of the number of rows from each
    rank (int32).
    """
    del ignore_name_scope
    given = _as_tensors([tensor], "alltoall")
    call = Call.of("alltoall", process_set, name=name or "")
    if splits is None:
        return run(call, given)[0]
    rows = tf.convert_to_tensor(splits)
    if not rows.dtype.is_integer:
        raise InvalidArgumentError(f"splits is of type {rows.dtype.name}; pass one integer for each rank")
    if rows.shape.rank not in (None, 1) or rows.shape.as_list()[0] not in (None, call.size):
        raise InvalidArgumentError(f"splits has the shape {rows.shape}; pass one integer for each of {call.size} ranks")
    return run(call, given, rows)[0], tf.cast(received_splits(call, rows), tf.int32)


def grouped_reducescatter(
    tensors: Sequence[Any],
    device_dense: str = "",
    compression: Any = Compression.none,
    op: ReduceOp = Average,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> list[Any]:
    """Several :func:`reducescatter` as one operation."""
    del device_dense
    op = ReduceOp(op)
    need_parts(op)
    pairs = [compression.compress(tf.convert_to_tensor(tensor)) for tensor in tensors]
    given = _as_tensors([tensor for tensor, _ in pairs], "reducescatter", op)
    call = Call.reducing("reduce_scatter", process_set, op, (prescale_factor, postscale_factor), name=name or "")
    return [compression.decompress(result, context) for result, (_, context) in zip(run(call, given), pairs, strict=True)]


def reducescatter(
    tensor: Any,
    device_dense: str = "",
    compression: Any = Compression.none,
    op: ReduceOp = Average,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Any:
    """This rank's part of the reduced tensor. The first dimension is divided evenly; the first ranks get one row more."""
    return grouped_reducescatter([tensor], device_dense, compression, op, name, process_set, prescale_factor, postscale_factor)[
        0
    ]


def join() -> int:
    """Says that this rank has no more data: until all have joined it takes part in the others' reductions with the neutral
    element. Blocks; gives the rank that joined last. Eagerly only.
    """
    if not tf.executing_eagerly():
        raise UnsupportedError("join() in a tf.function; call it after the last step, outside of it")
    return _collective.join()


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Returns when all ranks of the set have called it. Eagerly only."""
    if not tf.executing_eagerly():
        raise UnsupportedError("barrier() in a tf.function; call it outside of it")
    _collective.barrier(process_set)
