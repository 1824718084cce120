"""The primitive behind all collectives: one operation of the engine on any number of arrays, with rules for jit, grad and vmap.

Calls are ordered: in a compiled program, and from one program to the next, they run as Python made them. Otherwise XLA would
run independent ones in another order on each rank, and ranks would wait for each other. JAX's ordered effects do that; a
rank's order is then every rank's, so that calls need no names.
"""

from __future__ import annotations

import ctypes
import functools
import pathlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import numpy as np
from jax._src import effects as _effects
from jax._src.interpreters import mlir
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, batching

import xoe
from xoe import _core
from xoe._call import Call, need_linear
from xoe.errors import UnsupportedError
from xoe.first_step import observe
from xoe.jax.observed_programs import on_observed

KINDS = _core.KINDS
REDUCTIONS = _core.REDUCTIONS

_ROWS = ("allgather", "reduce_scatter", "alltoall")  # they work on the first dimension


class _Ordered(_effects.Effect):
    def __repr__(self) -> str:
        return "collective of Xoe"

    def __hash__(self) -> int:
        return hash(_Ordered)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Ordered)


ORDER = _Ordered()
for _set in (
    _effects.ordered_effects,
    _effects.lowerable_effects,
    _effects.control_flow_allowed_effects,
    _effects.custom_derivatives_allowed_effects,
    _effects.remat_allowed_effects,
):
    _set.add_type(_Ordered)

collective_p = Primitive("xoe_collective")
collective_p.multiple_results = True


def run(call: Call, arrays: Sequence[Any]) -> list[Any]:
    """The results, in the order of the arrays. Inside and outside of jit."""
    return list(collective_p.bind(*arrays, call=call)) if arrays else []


@functools.lru_cache(maxsize=1000)
def _compiled(call: Call) -> Any:
    return jax.jit(lambda *arrays: collective_p.bind(*arrays, call=call))


@collective_p.def_impl
def _run_at_once(*arrays: Any, call: Call) -> Any:
    return _compiled(call)(*arrays)


@collective_p.def_effectful_abstract_eval
def _shapes(*arrays: Any, call: Call) -> Any:
    return [ShapedArray(call.shape_in_program(array.shape), array.dtype) for array in arrays], {ORDER}


# ---- Lowering to a call of libxoe_jax.so


@functools.cache
def _register() -> None:
    library = ctypes.PyDLL(str(pathlib.Path(xoe.__file__).with_name("lib") / "libxoe_jax.so"))
    library.xoe_jax_connect(ctypes.c_void_p(_core.engine_access()))
    for target, in_host_memory, on_a_gpu in (
        ("xoe_collective", library.xoe_jax_cpu, library.xoe_jax_cuda),
        ("xoe_first_step", library.xoe_jax_first_step_cpu, library.xoe_jax_first_step_cuda),
    ):
        for platform, function in (("cpu", in_host_memory), ("CUDA", on_a_gpu)):
            jax.ffi.register_ffi_target(target, jax.ffi.pycapsule(function), platform=platform)
    observe(library, "xoe_jax", on_observed)


def _lower(context: Any, *operands: Any, call: Call) -> Any:
    ir = mlir.ir
    i32, f64 = ir.IntegerType.get_signless(32), ir.F64Type.get()
    attributes = {
        "count": ir.IntegerAttr.get(i32, len(operands)),
        "kind": ir.IntegerAttr.get(i32, KINDS[call.kind]),
        "reduce": ir.IntegerAttr.get(i32, REDUCTIONS[call.reduce]),
        "prescale": ir.FloatAttr.get(f64, call.prescale),
        "postscale": ir.FloatAttr.get(f64, call.postscale),
        "root": ir.IntegerAttr.get(i32, call.root),
        "process_set": ir.IntegerAttr.get(i32, call.process_set),
        "compression": ir.IntegerAttr.get(i32, call.compression),
        "name": ir.StringAttr.get(call.name),
    }
    return custom_call(context, "xoe_collective", operands, attributes)


def custom_call(context: Any, target: str, operands: Sequence[Any], attributes: dict[str, Any]) -> list[Any]:
    """A call of libxoe_jax.so, in order with all others; its first results have the types of the first operands."""
    _register()
    ir = mlir.ir
    elements = [ir.RankedTensorType(operand.type).element_type for operand in operands[: len(context.avals_out)]]
    results = [ir.RankedTensorType.get(aval.shape, kind) for aval, kind in zip(context.avals_out, elements, strict=True)]
    token = context.tokens_in.get(ORDER)
    rows = [list(reversed(range(aval.ndim))) for aval in context.avals_in]
    result_rows = [list(reversed(range(aval.ndim))) for aval in context.avals_out]
    made = mlir.custom_call(
        target,
        result_types=[*results, token.type],
        operands=[*operands, token],
        backend_config=attributes,
        has_side_effect=True,
        api_version=4,
        operand_layouts=[*rows, []],
        result_layouts=[*result_rows, []],
    )
    *results, token = made.results
    context.set_tokens_out(context.tokens_in.update_tokens(mlir.TokenSet({ORDER: token})))
    return results


mlir.register_lowering(collective_p, _lower, platform="cpu")
mlir.register_lowering(collective_p, _lower, platform="cuda")


# ---- vmap


def _batch(arrays: Sequence[Any], axes: Sequence[Any], *, call: Call) -> Any:
    """A batch is reduced as one array. Operations on rows keep their first dimension: the batch goes to the last one."""
    moved, out = [], []
    for array, axis in zip(arrays, axes, strict=True):
        if not isinstance(axis, int):  # not part of the batch
            moved.append(array)
            out.append(axis)
            continue
        to = array.ndim - 1 if call.kind in _ROWS else 0
        moved.append(jax.numpy.moveaxis(array, axis, to))
        out.append(to)
    return run(call, moved), out


batching.primitive_batchers[collective_p] = _batch


# ---- grad


def _of_numbers(tangents: Sequence[Any], apply: Callable[[list[Any]], list[Any]]) -> list[Any]:
    """Applies a linear operation to tangents or cotangents; those of integers stay what JAX has for them, which is nothing."""
    kinds = [getattr(tangent, "aval", tangent).dtype for tangent in tangents]
    chosen = [index for index, kind in enumerate(kinds) if kind != jax.dtypes.float0]
    results = list(tangents)
    given = [ad.instantiate_zeros(tangents[index]) for index in chosen]
    for index, result in zip(chosen, apply(given), strict=True):
        results[index] = result
    return results


def _forward_derivative(primals: Sequence[Any], tangents: Sequence[Any], *, call: Call) -> Any:
    need_linear(call, "derivative")
    results = run(call, primals)
    if all(isinstance(tangent, ad.Zero) for tangent in tangents):
        return results, [ad.Zero.from_primal_value(result) for result in results]
    return results, _of_numbers(tangents, lambda some: run(call, some))


ad.primitive_jvps[collective_p] = _forward_derivative


def _transposed(call: Call) -> Call:
    """The linear map whose matrix over all ranks is the transposed one: what a rank's input adds to all ranks' results."""
    if call.kind == "allgather":
        return replace(call, kind="reduce_scatter", reduce="sum")
    if call.kind == "reduce_scatter":
        factor = call.prescale * call.postscale / (call.size if call.reduce == "average" else 1)
        return replace(call, kind="allgather", reduce="sum", prescale=1.0, postscale=factor)
    if call.kind == "broadcast":
        return replace(call, kind="allreduce", reduce="sum")
    return replace(call, prescale=call.postscale, postscale=call.prescale) if call.kind == "allreduce" else call


def _backward(cotangents: Sequence[Any], *arrays: Any, call: Call) -> Any:
    need_linear(call, "derivative")
    turned = _transposed(call)
    if call.kind == "reduce_scatter":  # parts differ by a row, and all ranks gather the same number
        rows = [array.aval.shape[0] for array in arrays]
        if any(count % call.size for count in rows):
            raise UnsupportedError("reducescatter has a derivative only where the ranks' parts are of equal size")

    def apply(given: list[Any]) -> list[Any]:
        results = run(replace(turned, postscale=1.0) if call.kind == "reduce_scatter" else turned, given)
        if call.kind == "reduce_scatter":
            return [result * np.asarray(turned.postscale, result.dtype) for result in results]
        if call.kind == "broadcast" and call.rank != call.root:
            return [result * np.zeros((), result.dtype) for result in results]
        return results

    return _of_numbers(cotangents, apply)


ad.primitive_transposes[collective_p] = _backward
