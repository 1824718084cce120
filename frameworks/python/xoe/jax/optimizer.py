"""Optimizers of optax whose gradients are those of all ranks."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree

from xoe.errors import InvalidArgumentError, UnsupportedError
from xoe.first_step import FirstStep
from xoe.jax.collectives import allgather, allreduce, broadcast, reducescatter
from xoe.jax.first_step import ADVICE, look
from xoe.process_sets import ProcessSet, global_process_set
from xoe.reduction import Adasum, Average, ReduceOp


def DistributedOptimizer(
    optimizer: optax.GradientTransformation,
    *,
    op: ReduceOp = Average,
    compression: str = "none",
    gradient_predivide_factor: float = 1.0,
    backward_passes_per_step: int = 1,
    process_set: ProcessSet = global_process_set,
) -> optax.GradientTransformationExtraArgs:
    """The optimizer, fed with gradients that are reduced over all ranks; for use like the optimizer itself, also inside of jit.

    All gradients of a step are one operation. The parameters must be the same on all ranks at the start: see
    :func:`broadcast_parameters`.

    gradient_predivide_factor: divides gradients before the sum, and the sum by the rest, with op=Average.
    backward_passes_per_step: so many calls of ``update`` are averaged locally before gradients are reduced; in between the
        updates are zero.
    """
    if gradient_predivide_factor != 1.0 and op is not Average:
        raise InvalidArgumentError("gradient_predivide_factor needs op=Average")
    if backward_passes_per_step < 1:
        raise InvalidArgumentError(f"backward_passes_per_step is {backward_passes_per_step}; pass 1 or more")
    inner = optax.with_extra_args_support(optimizer)
    scales: dict[str, Any] = {}
    if gradient_predivide_factor != 1.0:
        scales = {"prescale_factor": 1.0 / gradient_predivide_factor, "postscale_factor": gradient_predivide_factor}

    step = FirstStep(ADVICE, process_set)

    def update(gradients: Any, state: Any, params: Any = None, **more: Any) -> Any:
        look(step, params, gradients)
        reduced = allreduce(gradients, op, compression=compression, process_set=process_set, **scales)
        return inner.update(reduced, state, params, **more)

    reducing = optax.GradientTransformationExtraArgs(inner.init, update)
    return reducing if backward_passes_per_step == 1 else _accumulating(reducing, backward_passes_per_step)


class AccumulatedState(NamedTuple):
    """Gradients of this rank that have not been reduced yet: their sum, and of how many calls."""

    inner: Any
    sum: Any
    calls: Any


def _accumulating(reducing: optax.GradientTransformationExtraArgs, passes: int) -> optax.GradientTransformationExtraArgs:
    """optax.MultiSteps would call the optimizer, and so communicate, in every pass."""

    def init(params: Any) -> AccumulatedState:
        return AccumulatedState(reducing.init(params), jax.tree.map(jnp.zeros_like, params), jnp.zeros((), jnp.int32))

    def update(gradients: Any, state: AccumulatedState, params: Any = None, **more: Any) -> Any:
        total = jax.tree.map(jnp.add, state.sum, gradients)

        def step(total: Any, inner: Any) -> Any:
            mean = jax.tree.map(lambda one: one / passes, total)
            updates, inner = reducing.update(mean, inner, params, **more)
            return updates, AccumulatedState(inner, jax.tree.map(jnp.zeros_like, total), jnp.zeros((), jnp.int32))

        def wait(total: Any, inner: Any) -> Any:
            return jax.tree.map(jnp.zeros_like, total), AccumulatedState(inner, total, state.calls + 1)

        return jax.lax.cond(state.calls + 1 == passes, step, wait, total, state.inner)

    return optax.GradientTransformationExtraArgs(init, update)


def need_no_shards(tree: Any) -> None:
    """Raises UnsupportedError where a tree holds the state of a ShardedOptimizer."""
    if any(isinstance(one, ShardedState) for one in jax.tree.leaves(tree, is_leaf=lambda one: isinstance(one, ShardedState))):
        raise UnsupportedError(
            "this is the state of a ShardedOptimizer: each rank has a part of its own, which no other rank can take over"
        )


class ShardedState(NamedTuple):
    """This rank's part of the optimizer's state."""

    inner: Any


def ShardedOptimizer(
    optimizer: optax.GradientTransformation, *, op: ReduceOp = Average, process_set: ProcessSet = global_process_set
) -> optax.GradientTransformationExtraArgs:
    """Each rank keeps the optimizer's state of its part of the parameters alone, and computes the updates of that part.

    Gradients are reduced and scattered, updates gathered, which moves as many bytes as an allreduce. For optimizers that
    treat each element by itself, such as ``optax.adamw``; not for those that look at whole layers or at the norm of all
    gradients (put ``optax.clip_by_global_norm`` around it, after an allreduce). Parameters are of one type.
    """
    if op is Adasum:
        raise InvalidArgumentError("ShardedOptimizer does not support Adasum")
    inner = optax.with_extra_args_support(optimizer)

    def shard_length(flat: Any) -> int:
        return -(-flat.size // process_set.size())

    def padded(flat: Any) -> Any:
        return jnp.pad(flat, (0, shard_length(flat) * process_set.size() - flat.size))

    def own(flat: Any) -> Any:
        length = shard_length(flat)
        return jax.lax.dynamic_slice_in_dim(padded(flat), process_set.rank() * length, length)

    step = FirstStep(ADVICE, process_set)

    def init(params: Any) -> ShardedState:
        return ShardedState(inner.init(own(_flatten(params)[0])))

    def update(gradients: Any, state: ShardedState, params: Any = None, **more: Any) -> Any:
        look(step, params, gradients)
        flat, restore = _flatten(gradients)
        shard = reducescatter(padded(flat), op, process_set=process_set)
        part = None if params is None else own(_flatten(params)[0])
        updates, kept = inner.update(shard, state.inner, part, **more)
        whole = _gather(updates, process_set)[: flat.size]
        return restore(whole), ShardedState(kept)

    return optax.GradientTransformationExtraArgs(init, update)


def _gather(array: Any, process_set: ProcessSet) -> Any:
    return jax.jit(lambda part: allgather(part, process_set=process_set))(array)


def _flatten(tree: Any) -> Any:
    kinds = {leaf.dtype for leaf in jax.tree.leaves(tree)}
    if len(kinds) > 1:
        listed = ", ".join(sorted(str(kind) for kind in kinds))
        raise InvalidArgumentError(f"ShardedOptimizer needs parameters of one type; they are of {listed}")
    return ravel_pytree(tree)


def broadcast_parameters(params: Any, root_rank: int = 0, *, process_set: ProcessSet = global_process_set) -> Any:
    """Parameters, or an optimizer's state, as ``root_rank`` has them. Arrays are not changed in place: use what it returns.

    Not the state of a :func:`ShardedOptimizer`, of which each rank has a part of its own.
    """
    need_no_shards(params)
    return broadcast(params, root_rank, process_set=process_set)
