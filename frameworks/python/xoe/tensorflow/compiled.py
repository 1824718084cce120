"""Collectives in programs that XLA compiles: ``tf.function(jit_compile=True)``, and Keras's steps where TensorFlow has a GPU.

XLA has none of TensorFlow's own operations, but calls functions that are registered with it; a small program in StableHLO
makes such a call, and TensorFlow puts it into the one that it compiles. XLA runs independent calls in any order, and in
another one on each rank. So each call takes the value of a variable, and returns its next one: TensorFlow keeps the order in
which Python reads and assigns a variable, also in loops, branches and functions inside of others.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import tensorflow as tf

from xoe import _core
from xoe._call import Call, need_linear
from xoe.errors import UnsupportedError
from xoe.first_step import Observed
from xoe.tensorflow.library import connect_xla, number_of

_PLATFORMS = ["CPU", "CUDA"]  # the first argument of a program says on which of them it runs
_ORDER = "tensor<f32>"
_VERSION = 9  # of what XlaCallModule is given
_TYPES = {"bool": "i1", "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64", "complex64": "complex<f32>"}
_TYPES["complex128"] = "complex<f64>"
_TYPES |= {f"{sign}int{bits}": f"{sign}i{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}


def is_compiled() -> bool:
    """Whether XLA will compile the graph that is being made."""
    if tf.executing_eagerly():
        return False
    try:
        from tensorflow.python.ops.control_flow_util import GraphOrParentsInXlaContext
    except ImportError:
        return False  # TensorFlow itself says then that XLA lacks the operation
    return bool(GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph()))


@functools.cache
def _variable() -> Any:
    with tf.init_scope():
        return tf.Variable(0.0, trainable=False, name="xoe_order")


def _is_gradient_of_loop(graph: Any) -> bool:
    """Whether the graph is the body of a loop that computes gradients, or in one. TensorFlow takes no variables there."""
    while graph is not None:
        if type(graph).__name__ == "_WhileBodyGradFuncGraph":
            return True
        graph = getattr(graph, "outer_graph", None)
    return False


def _begin() -> Any:
    """What the last call has returned; in the gradient of a loop, of those in the same body."""
    graph = tf.compat.v1.get_default_graph()
    if not _is_gradient_of_loop(graph):
        return _variable().read_value()
    last = getattr(graph, "xoe_order", None)
    return tf.constant(0.0) if last is None else last


def _end(after: Any) -> None:
    """Notes what a call has returned."""
    graph = tf.compat.v1.get_default_graph()
    if _is_gradient_of_loop(graph):
        graph.xoe_order = after
    else:
        _variable().assign(after)


@tf.autograph.experimental.do_not_convert
def run(call: Call, tensors: Sequence[Any], splits: Any = None) -> list[Any]:
    """The results, in the order of the tensors.

    call: with a name that is unique in the graph. Raises UnsupportedError where the shape of a result is not known before
    the program runs.
    """
    connect_xla()
    _check_shapes(call, tensors, splits)

    @tf.custom_gradient
    def with_gradient(before: Any, *given: Any) -> tuple[list[Any], Callable[..., list[Any]]]:
        return _call(call, before, given), lambda _, *gradients: [None, *_gradients(call, given, gradients)]

    after, *results = with_gradient(_begin(), *tensors)
    _end(after)
    return results


def _check_shapes(call: Call, tensors: Sequence[Any], splits: Any) -> None:
    where = f"{call.kind} in a program that XLA compiles (jit_compile=True)"
    if splits is not None:
        raise UnsupportedError(f"{where}: with splits, the shape of its result is not known; leave jit_compile=True out")
    for tensor in tensors:
        if not tensor.shape.is_fully_defined():
            raise UnsupportedError(
                f"{where}: it must know all shapes, and one is {tensor.shape}; give input_signature= without None, pass the"
                " tensor through tf.ensure_shape, or leave jit_compile=True out"
            )
        if call.kind == "alltoall" and (tensor.shape.rank == 0 or tensor.shape[0] % call.size):
            raise UnsupportedError(f"{where}: the rows of {tensor.shape} must divide evenly among {call.size} ranks")
        if call.kind in ("allgather", "reduce_scatter") and tensor.shape.rank == 0:
            raise UnsupportedError(f"{where}: it works on the first dimension, and a scalar has none")


def _call(call: Call, order: Any, tensors: Sequence[Any]) -> list[Any]:
    shapes = [call.shape_in_program(tuple(tensor.shape)) for tensor in tensors]
    attributes = {
        "kind": f"{_core.KINDS[call.kind]} : i32",
        "reduce": f"{_core.REDUCTIONS[call.reduce]} : i32",
        "prescale": _double(call.prescale),
        "postscale": _double(call.postscale),
        "root": f"{call.root} : i32",
        "process_set": f"{call.process_set} : i32",
        "compression": f"{call.compression} : i32",
        "name": _quoted(call.name),
    }
    return _in_order("xoe_tensorflow_collective", order, tensors, attributes, shapes)


def can_show(tensors: Sequence[Any]) -> bool:
    """Whether all have shapes that are known before the program runs, and types that :func:`show` takes."""
    return all(tensor.shape.is_fully_defined() and tensor.dtype.name in _TYPES for tensor in tensors)


@tf.autograph.experimental.do_not_convert
def show(tensors: Sequence[Any], look: Callable[[Observed], bool]) -> None:
    """Lets Python look at tensors or variables whenever the program gets here. look: returns whether it need not look again."""
    connect_xla()
    values = [tf.convert_to_tensor(one) for one in tensors]
    _end(*_in_order("xoe_tensorflow_first_step", _begin(), values, {"number": f"{number_of(look)} : i32"}, []))


def _in_order(
    target: str, order: Any, tensors: Sequence[Any], attributes: dict[str, str], shapes: Sequence[tuple[int, ...]]
) -> list[Any]:
    """What comes after ``order``, and the results of a call, which have the types of the first tensors."""
    try:
        from tensorflow.compiler.tf2xla.ops.gen_xla_ops import xla_call_module
    except ImportError:
        raise UnsupportedError(
            f"TensorFlow {tf.__version__} cannot compile collectives; leave jit_compile=True out, or pass jit_compile=False to"
            " Keras's compile()"
        ) from None
    types = [tensor.dtype for tensor in tensors]
    given = [(kind.name, tuple(tensor.shape)) for kind, tensor in zip(types, tensors, strict=True)]
    returned = [(kind, shape) for (kind, _), shape in zip(given, shapes, strict=False)]
    *results, after = xla_call_module(
        args=[*tensors, order],
        version=_VERSION,
        module=_program(target, {"count": f"{len(given)} : i32", **attributes}, given, returned),
        Sout=[*shapes, ()],
        Tout=[*types[: len(shapes)], tf.float32],
        platforms=_PLATFORMS,
    )
    return [after, *results]


# As of operations outside of such programs; here all ranks give the same shapes.
def _gradients(call: Call, tensors: Sequence[Any], gradients: Sequence[Any]) -> list[Any]:
    need_linear(call, "gradient")
    back = replace(call, name=f"{call.name}.gradient")
    if call.kind == "broadcast":
        means = run(replace(back, kind="allreduce", reduce="average", root=0), gradients)
        return means if call.rank == call.root else [tf.zeros_like(mean) for mean in means]
    if call.kind == "allreduce":
        return run(replace(back, prescale=call.postscale, postscale=call.prescale), gradients)
    if call.kind == "alltoall":
        return run(back, gradients)
    if call.kind == "allgather":
        means = run(replace(back, kind="allreduce", reduce="average"), gradients)
        return [tf.split(mean, call.size)[call.rank] for mean in means]
    for tensor in tensors:
        if tensor.shape[0] % call.size:
            raise UnsupportedError(
                f"the gradient of reducescatter of {tensor.shape[0]} rows in a program that XLA compiles (jit_compile=True):"
                f" they must divide evenly among {call.size} ranks"
            )
    factor = call.prescale * call.postscale * (call.size if call.reduce == "sum" else 1)
    gather = Call("allgather", process_set=call.process_set, rank=call.rank, size=call.size, name=back.name)
    return [gradient * tf.cast(factor, gradient.dtype) for gradient in run(gather, gradients)]


# ---- The program of one call, as text


_Type = tuple[str, tuple[int, ...]]  # of TensorFlow, and the shape


def _program(target: str, attributes: dict[str, str], given: Sequence[_Type], returned: Sequence[_Type]) -> str:
    """The last argument and the last result of the call are the order."""
    operands = [*(f"%tensor{index}" for index in range(len(given))), "%order"]
    types = [*(_tensor(one) for one in given), _ORDER]
    results = [*(_tensor(one) for one in returned), _ORDER]
    arguments = ", ".join(f"{name}: {kind}" for name, kind in zip(operands, types, strict=True))
    layouts = [", ".join([*(_rows(len(shape)) for _, shape in one), _rows(0)]) for one in (given, returned)]
    options = [
        "api_version = 4 : i32",
        "has_side_effect = true",
        f"backend_config = {{{', '.join(f'{name} = {value}' for name, value in attributes.items())}}}",
        f"operand_layouts = [{layouts[0]}]",
        f"result_layouts = [{layouts[1]}]",
    ]
    called = f"stablehlo.custom_call @{target}({', '.join(operands)}) {{{', '.join(options)}}}"
    values = ", ".join(f"%out#{index}" for index in range(len(results)))
    return f"""module @xoe {{
  func.func public @main(%platform: tensor<i32>, {arguments}) -> ({", ".join(results)}) {{
    %out:{len(results)} = {called} : ({", ".join(types)}) -> ({", ".join(results)})
    return {values} : {", ".join(results)}
  }}
}}
"""


def _rows(rank: int) -> str:
    """The layout of C: row by row."""
    order = ", ".join(str(index) for index in reversed(range(rank)))
    return f"dense<[{order}]> : tensor<{rank}xindex>" if rank else "dense<> : tensor<0xindex>"


def _tensor(one: _Type) -> str:
    kind, shape = one
    return f"tensor<{''.join(f'{size}x' for size in shape)}{_TYPES[kind]}>"


def _double(value: float) -> str:
    """By its bits: MLIR does not read all of Python's forms."""
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X} : f64"


def _quoted(text: str) -> str:
    plain = (chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\' else f"\\{byte:02X}" for byte in text.encode())
    return f'"{"".join(plain)}"'
