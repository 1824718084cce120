"""Collectives of arrays and of trees of arrays, inside and outside of ``jax.jit``.

Each call is one operation, also for a tree with many leaves. Every rank makes the same calls in the same order.
``process_set``: the ranks that take part; each of them calls, and no other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from xoe import _arrays, _collective, _core
from xoe._call import Call, run_by_type
from xoe._collective import need_parts, need_type
from xoe.errors import InvalidArgumentError, UnsupportedError
from xoe.jax.primitive import run
from xoe.process_sets import ProcessSet, global_process_set
from xoe.reduction import Average, ReduceOp


def _as_arrays(leaves: Sequence[Any], kind: str, op: ReduceOp | None = None) -> list[Any]:
    """What the operation works on, if it supports their types."""
    arrays = [jnp.asarray(leaf) for leaf in leaves]
    for array in arrays:
        if not isinstance(array, jax.core.Tracer) and len(array.sharding.device_set) > 1:
            raise UnsupportedError(
                f"an array lies on {len(array.sharding.device_set)} devices; Xoe's collectives take arrays of one device: "
                "use jax.lax.psum for sharded ones (xoe run --jax)"
            )
    for array in arrays:
        need_type(array.dtype.name, kind, op, str(list(array.shape)))
    return arrays


def _need_rows(arrays: Sequence[Any], kind: str) -> None:
    for array in arrays:
        if array.ndim == 0:
            raise InvalidArgumentError(f"{kind} works on the first dimension, and a scalar has none; reshape it to (1,)")


def allreduce(
    tree: Any,
    op: ReduceOp = Average,
    *,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    compression: str = "none",
    process_set: ProcessSet = global_process_set,
    name: str = "",
) -> Any:
    """The leaves of ``tree``, reduced over all ranks. Differentiable for Average and Sum.

    op: Average, Sum, Min, Max, Product or Adasum. prescale_factor multiplies the inputs, postscale_factor the results; float
        types only.
    compression: "float16", "bfloat16" or "float8" on the way between ranks.
    name: of the operation, for the timeline and for messages; the same on all ranks.
    """
    op = ReduceOp(op)
    leaves, structure = jax.tree.flatten(tree)
    arrays = _as_arrays(leaves, "allreduce", op)
    if compression not in _core.COMPRESSIONS:
        raise InvalidArgumentError(f"compression is {compression!r}; there are {', '.join(sorted(_core.COMPRESSIONS))}")
    scales = (prescale_factor, postscale_factor)
    call = Call.reducing("allreduce", process_set, op, scales, compression=_core.COMPRESSIONS[compression], name=name)
    return jax.tree.unflatten(structure, run_by_type(call, arrays, [array.dtype.name for array in arrays], run))


def broadcast(tree: Any, root_rank: int = 0, *, process_set: ProcessSet = global_process_set, name: str = "") -> Any:
    """The leaves of ``tree`` as ``root_rank`` (a rank of the world) has them."""
    leaves, structure = jax.tree.flatten(tree)
    arrays = _as_arrays(leaves, "broadcast")
    call = Call.of("broadcast", process_set, root=process_set.root(root_rank), name=name)
    return jax.tree.unflatten(structure, run(call, arrays))


def allgather(tree: Any, *, process_set: ProcessSet = global_process_set, name: str = "") -> Any:
    """The leaves of all ranks, one after the other along the first dimension.

    All ranks give the same shape. Outside of jit the first dimension may differ.
    """
    leaves, structure = jax.tree.flatten(tree)
    arrays = _as_arrays(leaves, "allgather")
    _need_rows(arrays, "allgather")
    call = Call.of("allgather", process_set, name=name)
    if any(isinstance(array, jax.core.Tracer) for array in arrays):
        results = run(call, arrays)
    else:
        results, _ = _now("allgather", arrays, call)
    return jax.tree.unflatten(structure, results)


def reducescatter(
    tree: Any,
    op: ReduceOp = Average,
    *,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    name: str = "",
) -> Any:
    """This rank's part of the reduced leaves. The first dimension is divided evenly; the first ranks get one row more."""
    op = ReduceOp(op)
    need_parts(op)
    leaves, structure = jax.tree.flatten(tree)
    arrays = _as_arrays(leaves, "reducescatter", op)
    _need_rows(arrays, "reducescatter")
    call = Call.reducing("reduce_scatter", process_set, op, (prescale_factor, postscale_factor), name=name)
    return jax.tree.unflatten(structure, run(call, arrays))


def alltoall(
    array: Any, splits: Sequence[int] | None = None, *, process_set: ProcessSet = global_process_set, name: str = ""
) -> Any:
    """Sends ``splits[r]`` rows of the first dimension to each rank r of the set; equal parts without ``splits``.

    Returns the received rows, in the order of ranks; with ``splits``, a pair of them and of the rows from each rank. Inside
    of jit the parts must be equal: a compiled program knows all shapes.
    """
    (array,) = _as_arrays([array], "alltoall")
    _need_rows([array], "alltoall")
    call = Call.of("alltoall", process_set, name=name)
    traced = isinstance(array, jax.core.Tracer)
    if splits is None:
        if array.shape[0] % call.size:
            raise InvalidArgumentError(
                f"alltoall of {array.shape[0]} rows among {call.size} ranks: pass splits, or a number that divides evenly"
            )
        if traced:
            return run(call, [array])[0]
        return _now("alltoall", [array], call)[0][0]
    if traced:
        raise UnsupportedError(
            "alltoall with splits inside of jit: the shape of its result is not known before it runs; call it outside"
        )
    results, received = _now("alltoall", [array], call, [int(rows) for rows in splits])
    return results[0], received


def _now(kind: str, arrays: Sequence[Any], call: Call, splits: Sequence[int] | None = None) -> tuple[list[Any], list[int]]:
    """Runs an operation whose result's shape is not known before, outside of jit, in order with those of programs."""
    jax.effects_barrier()
    results, received = _arrays.gather(kind, [np.asarray(array) for array in arrays], call.process_set, call.name, splits)
    return [jnp.asarray(result) for result in results], received


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Returns when all ranks of the set have called it, and what this rank's programs communicate has completed."""
    jax.effects_barrier()
    _collective.barrier(process_set)
