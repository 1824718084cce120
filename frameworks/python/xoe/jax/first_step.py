"""What ranks forget before they train: looked at when an optimizer of JAX reduces gradients for the first time.

In a compiled program a call of XLA shows its arguments, in order with collectives, to Python, until Python has seen enough:
how often a rank traces or compiles a program does not matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax._src.interpreters import mlir
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, batching

from xoe.first_step import Advice, FirstStep, sum_of_bits
from xoe.jax.observed_programs import number_of
from xoe.jax.primitive import ORDER, custom_call

ADVICE = Advice(
    "jax.",
    "Call params = xoe.jax.broadcast_parameters(params) before the first step",
    "such as inputs[xoe.jax.rank()::xoe.jax.size()]",
)


def look(step: FirstStep, parameters: Any, gradients: Any) -> None:
    """Looks at trees of arrays, inside and outside of jit, before the gradients are reduced."""
    named = [(name, array) for name, array in _named(parameters) if _is_number(array)]
    look_at(step, [name for name, _ in named], [array for _, array in named], jax.tree.leaves(gradients))


def look_at(step: FirstStep, names: Sequence[str], parameters: Sequence[Any], gradients: Sequence[Any]) -> None:
    """Looks at arrays; ``names`` are those of the parameters."""
    gradients = [one for one in gradients if _is_number(one)]
    arrays = [*parameters, *gradients]
    if not gradients or step.is_alone():
        return
    if any(isinstance(one, jax.core.Tracer) for one in arrays):
        step.note_place()
        first_step_p.bind(*(jnp.asarray(one) for one in arrays), number=number_of(step, tuple(names)))
    elif not step.is_over():
        step.note_place()
        jax.effects_barrier()  # in order with programs
        sums = [sum_of_bits(np.asarray(one)) for one in arrays]
        step.see(names, sums[: len(names)], sums[len(names) :])


def _named(tree: Any) -> list[tuple[str, Any]]:
    pairs, _ = jax.tree_util.tree_flatten_with_path(tree)
    return [(jax.tree_util.keystr(path, simple=True, separator="/") or "the parameter", leaf) for path, leaf in pairs]


def _is_number(array: Any) -> bool:
    return bool(jnp.issubdtype(jnp.result_type(array), jnp.number))


# ---- The call


first_step_p = Primitive("xoe_first_step")
first_step_p.multiple_results = True


@first_step_p.def_impl
def _run_at_once(*arrays: Any, number: int) -> Any:
    return jax.jit(lambda *given: first_step_p.bind(*given, number=number))(*arrays)


@first_step_p.def_effectful_abstract_eval
def _shapes(*arrays: ShapedArray, number: int) -> Any:
    return [], {ORDER}


def _lower(context: Any, *operands: Any, number: int) -> Any:
    ir = mlir.ir
    attributes = {"number": ir.IntegerAttr.get(ir.IntegerType.get_signless(32), number)}
    return custom_call(context, "xoe_first_step", operands, attributes)


mlir.register_lowering(first_step_p, _lower, platform="cpu")
mlir.register_lowering(first_step_p, _lower, platform="cuda")


def _batch(arrays: Sequence[Any], axes: Sequence[Any], *, number: int) -> Any:
    return first_step_p.bind(*arrays, number=number), []


def _forward_derivative(primals: Sequence[Any], tangents: Sequence[Any], *, number: int) -> Any:
    return first_step_p.bind(*primals, number=number), []


batching.primitive_batchers[first_step_p] = _batch
ad.primitive_jvps[first_step_p] = _forward_derivative
