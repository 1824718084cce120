"""The two operations of TensorFlow that libxoe_tensorflow.so registers, with their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import tensorflow as tf

from xoe import _call, _core
from xoe.first_step import Parts
from xoe.tensorflow import compiled
from xoe.tensorflow.first_step import number
from xoe.tensorflow.library import operations

_SHAPE_KEEPERS = ("allreduce", "adasum", "broadcast")


@dataclass(frozen=True)
class Call(_call.Call):
    """watch: of a step whose first runs Python looks at."""

    watch: Parts | None = field(default=None, compare=False)


def run(call: Call, tensors: Sequence[Any], splits: Any = None) -> list[Any]:
    """The results, in the order of the tensors: eagerly, or as nodes of the graph that is being made, or as calls of the
    program that XLA compiles.

    splits: of an alltoall, the rows for each rank; None: equal parts.
    """
    if not tensors:
        return []
    name = call.name or _name_in_graph(call.kind)
    if compiled.is_compiled():
        return compiled.run(replace(call, name=name), tensors, splits)
    module = operations()
    attributes = {
        "tensors": list(tensors),
        "kind": _core.KINDS[call.kind],
        "reduce": _core.REDUCTIONS[call.reduce],
        "prescale": repr(call.prescale),
        "postscale": repr(call.postscale),
        "root": call.root,
        "process_set": call.process_set,
        "compression": call.compression,
        "collective": name,
    }
    if call.kind in _SHAPE_KEEPERS:
        return list(module.xoe_reduce(**attributes, watch=number(call.watch)))
    rows = tf.zeros([0], tf.int64) if splits is None else tf.cast(splits, tf.int64)
    results = module.xoe_gather(**attributes, splits=rows)
    if not tf.executing_eagerly():
        for tensor, result in zip(tensors, results, strict=True):
            if tensor.shape.rank is not None:
                result.set_shape([None, *tensor.shape[1:]])
    return list(results)


def _name_in_graph(kind: str) -> str:
    """Nodes of a graph run in an order of TensorFlow's: each has a name. Eagerly, operations meet by their order."""
    return "" if tf.executing_eagerly() else tf.compat.v1.get_default_graph().unique_name(f"tensorflow.{kind}")


# ---- Gradients


def _call_of(operation: Any) -> Call:
    """Of a node, less the rank and size, which no attribute has."""
    kinds = {number: kind for kind, number in _core.KINDS.items()}
    reductions = {number: name for name, number in _core.REDUCTIONS.items()}
    prescale, postscale = (float(operation.get_attr(name).decode()) for name in ("prescale", "postscale"))
    return Call(
        kinds[operation.get_attr("kind")],
        reductions[operation.get_attr("reduce")],
        prescale,
        postscale,
        operation.get_attr("root"),
        operation.get_attr("process_set"),
        compression=operation.get_attr("compression"),
    )


def _place(process_set: int) -> tuple[int, int]:
    from xoe import world as _world

    world = _world.current()
    ranks = world.engine.process_set_ranks(process_set)
    return ranks.index(world.rank), len(ranks)


# As in Horovod: gradients of the mean of all ranks' losses, times the number of ranks where an operation sums.


@tf.RegisterGradient("XoeReduce")
def _gradient_of_reduce(operation: Any, *gradients: Any) -> list[Any]:
    call = _call_of(operation)
    _call.need_linear(call, "gradient")
    given = [_or_zeros(gradient, tensor) for gradient, tensor in zip(gradients, operation.outputs, strict=True)]
    if call.kind == "broadcast":
        rank, _ = _place(call.process_set)
        means = run(replace(call, kind="allreduce", reduce="average", root=0), given)
        return means if rank == call.root else _zeros_after(means)
    return run(replace(call, prescale=call.postscale, postscale=call.prescale), given)


@tf.RegisterGradient("XoeGather")
def _gradient_of_gather(operation: Any, *gradients: Any) -> list[Any]:
    call = _call_of(operation)
    _call.need_linear(call, "gradient")
    given = [_or_zeros(gradient, tensor) for gradient, tensor in zip(gradients, operation.outputs, strict=True)]
    tensors, splits = operation.inputs[:-1], operation.inputs[-1]
    if call.kind == "alltoall":
        return [_back_to_senders(call, given[0], tensors[0], splits), None]
    if call.kind == "allgather":
        return [*(_own_rows(call, gradient, tensor) for gradient, tensor in zip(given, tensors, strict=True)), None]
    _, size = _place(call.process_set)
    factor = call.prescale * call.postscale * (size if call.reduce == "sum" else 1)
    gathered = run(Call("allgather", process_set=call.process_set), given)
    return [*(gradient * tf.cast(factor, gradient.dtype) for gradient in gathered), None]


def _or_zeros(gradient: Any, tensor: Any) -> Any:
    return tf.zeros_like(tensor) if gradient is None else tf.convert_to_tensor(gradient)


def _zeros_after(tensors: list[Any]) -> list[Any]:
    """Zeros that need the tensors: TensorFlow would leave out an operation whose result counts on other ranks alone."""
    with tf.control_dependencies(tensors):
        return [tf.identity(tf.zeros_like(tensor)) for tensor in tensors]


def _own_rows(call: Call, gradient: Any, tensor: Any) -> Any:
    """Ranks may have gathered different numbers of rows: each takes its own of the mean of all."""
    rank, size = _place(call.process_set)
    rows = tf.shape(tensor, out_type=tf.int64)[0]
    (counts,) = run(Call("allgather", process_set=call.process_set), [tf.reshape(rows, [1])])
    (mean,) = run(Call("allreduce", "average", process_set=call.process_set), [gradient])
    with tf.control_dependencies([counts]):  # rank 0 needs no numbers, and the others wait for it
        before = tf.cast(tf.range(size) < rank, tf.int64)
    first = tf.reduce_sum(counts * before)
    return mean[first : first + rows]


def received_splits(call: Call, splits: Any) -> Any:
    """The rows that an alltoall with these splits receives from each rank."""
    return run(Call("alltoall", process_set=call.process_set), [tf.cast(splits, tf.int64)])[0]


def _back_to_senders(call: Call, gradient: Any, tensor: Any, splits: Any) -> Any:
    """Equal parts of a rank may be larger than those of another."""
    _, size = _place(call.process_set)
    rows = tf.shape(tensor, out_type=tf.int64)[0]
    sent = tf.cond(tf.equal(tf.size(splits), 0), lambda: tf.fill([size], rows // size), lambda: splits)
    return run(call, [gradient], received_splits(call, sent))[0]
