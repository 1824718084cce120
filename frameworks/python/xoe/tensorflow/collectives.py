"""Collectives of tensors, eagerly and in ``tf.function``, with Horovod's names and meanings.

All have gradients where their operation is linear. In a graph, operations are named after their place in it, which is the
same on all ranks that make the same graph; ``name`` chooses another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from xoe import _core
from xoe import world as _world
from xoe._by_type import run_by_type
from xoe.errors import InvalidArgumentError, UnsupportedError
from xoe.first_step import Parts
from xoe.process_sets import ProcessSet, global_process_set
from xoe.reduction import Adasum, Average, ReduceOp, Sum, choose
from xoe.tensorflow.compression import Compression
from xoe.tensorflow.operations import Call, received_splits, run

_BITS = frozenset(("uint16", "uint32", "uint64"))  # moved as signed integers of the same size: sums wrap to the same bits


def _call(kind: str, process_set: ProcessSet, **more: Any) -> Call:
    number = process_set._need()
    return Call(kind, process_set=number, rank=process_set.rank(), size=process_set.size(), **more)


def _need_types(tensors: Sequence[Any], kind: str, op: ReduceOp | None) -> None:
    for tensor in tensors:
        name = tensor.dtype.name
        complex_ = name in ("complex64", "complex128")
        if not (name in _core.DTYPES or name in _BITS or complex_):
            raise UnsupportedError(f"{kind} of {name}: Xoe does not support this type")
        if op is not None and name in _BITS and op not in (Sum, ReduceOp.Product):
            raise UnsupportedError(f"{op.name} of {name}; convert it to another type first")
        if op is not None and complex_ and op not in (Sum, Average):
            raise UnsupportedError(f"{op.name} of {name}: complex numbers support Sum and Average only")


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
    if any(isinstance(tensor, tf.IndexedSlices) for tensor in tensors):
        return [
            allreduce(
                tensor,
                compression=compression,
                op=op,
                prescale_factor=prescale_factor,
                postscale_factor=postscale_factor,
                process_set=process_set,
            )
            for tensor in tensors
        ]
    scales = (prescale_factor, postscale_factor)
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
    given = [tensor for tensor, _ in pairs]
    _need_types(given, "allreduce", op)
    call = _call(
        "adasum" if op is Adasum else "allreduce",
        process_set,
        reduce="sum" if op is Adasum else op.name.lower(),
        prescale=float(scales[0]),
        postscale=float(scales[1]),
        compression=compression.wire,
        name=name or "",
        watch=watch,
    )
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
    op = choose(op, average)
    if isinstance(tensor, tf.IndexedSlices):
        return _sparse_allreduce(tensor, op, prescale_factor * postscale_factor, process_set, name)
    (result,) = grouped_allreduce(
        [tensor],
        compression=compression,
        op=op,
        prescale_factor=prescale_factor,
        postscale_factor=postscale_factor,
        process_set=process_set,
        name=name,
    )
    return result


def _sparse_allreduce(slices: Any, op: ReduceOp, factor: float, process_set: ProcessSet, name: str | None) -> Any:
    if op not in (Average, Sum):
        raise UnsupportedError(f"{op.name} of IndexedSlices; there are Average and Sum, or tf.convert_to_tensor() it first")
    values, indices = grouped_allgather([slices.values, slices.indices], name=name, process_set=process_set)
    if op is Average:
        values = values / tf.cast(process_set.size(), values.dtype)  # integers become floats, as in Horovod
    if factor != 1.0:
        values = values * tf.cast(factor, values.dtype)
    return tf.IndexedSlices(values, indices, slices.dense_shape)


def grouped_allgather(
    tensors: Sequence[Any], name: str | None = None, process_set: ProcessSet = global_process_set
) -> list[Any]:
    """Several :func:`allgather` as one operation."""
    given = [tf.convert_to_tensor(tensor) for tensor in tensors]
    _need_types(given, "allgather", None)
    return run(_call("allgather", process_set, name=name or ""), given)


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
    given = tf.convert_to_tensor(tensor)
    _need_types([given], "broadcast", None)
    return run(_call("broadcast", process_set, root=process_set.root(root_rank), name=name or ""), [given])[0]


def broadcast_(
    variables: Sequence[Any], root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> list[Any]:
    """Assigns the values of ``root_rank`` (a rank of the world) to the variables, as one operation; the variables' new
    values."""
    given = [tf.convert_to_tensor(variable) for variable in variables]
    _need_types(given, "broadcast", None)
    results = run(_call("broadcast", process_set, root=process_set.root(root_rank), name=name or ""), given)
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
    given = tf.convert_to_tensor(tensor)
    _need_types([given], "alltoall", None)
    call = _call("alltoall", process_set, name=name or "")
    if splits is None:
        return run(call, [given])[0]
    rows = tf.convert_to_tensor(splits)
    if not rows.dtype.is_integer:
        raise InvalidArgumentError(f"splits is of type {rows.dtype.name}; pass one integer for each rank")
    if rows.shape.rank not in (None, 1) or rows.shape[0] not in (None, call.size):
        raise InvalidArgumentError(f"splits has the shape {rows.shape}; pass one integer for each of {call.size} ranks")
    return run(call, [given], rows)[0], tf.cast(received_splits(call, rows), tf.int32)


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
    if op is Adasum:
        raise InvalidArgumentError("reducescatter does not support Adasum")
    pairs = [compression.compress(tf.convert_to_tensor(tensor)) for tensor in tensors]
    given = [tensor for tensor, _ in pairs]
    _need_types(given, "reducescatter", op)
    call = _call(
        "reduce_scatter",
        process_set,
        reduce=op.name.lower(),
        prescale=float(prescale_factor),
        postscale=float(postscale_factor),
        name=name or "",
    )
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
    operation = _world.current().engine.submit("", [], _core.Request(_core.KINDS["join"]))
    operation.wait()
    return operation.last_joined()


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Returns when all ranks of the set have called it. Eagerly only."""
    if not tf.executing_eagerly():
        raise UnsupportedError("barrier() in a tf.function; call it outside of it")
    _world.current().engine.submit("", [], _core.Request(_core.KINDS["barrier"], process_set=process_set._need())).wait()
