"""What the collectives of every framework share: operations of the engine as values, which the programs of JAX and TensorFlow
hold, the checks of their arguments, and the operations without tensors.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from xoe import _core
from xoe import world as _world
from xoe.errors import InvalidArgumentError, UnsupportedError
from xoe.process_sets import ProcessSet, global_process_set
from xoe.reduction import Adasum, Average, ReduceOp, Sum

_BITS = frozenset(("uint16", "uint32", "uint64"))  # moved as signed integers of the same size: sums wrap to the same bits
_FLOATS = frozenset(("float16", "bfloat16", "float32", "float64"))
_LINEAR = ("sum", "average")
Kind = TypeVar("Kind", bound="Call")


def engine_names(op: ReduceOp, kind: str) -> tuple[str, str]:
    """The engine's names of an operation of this kind and of its reduction: Adasum is a kind of its own."""
    return ("adasum", "sum") if op is Adasum else (kind, op.name.lower())


@dataclass(frozen=True)
class Call:
    """What an operation is, without its arrays. ``root``, ``rank`` and ``size`` are those of the process set."""

    kind: str
    reduce: str = "sum"
    prescale: float = 1.0
    postscale: float = 1.0
    root: int = 0
    process_set: int = 0
    rank: int = 0
    size: int = 1
    compression: int = 0
    name: str = ""

    @classmethod
    def of(cls: type[Kind], kind: str, process_set: ProcessSet, **more: Any) -> Kind:
        """Of the ranks of a process set."""
        number = process_set._need()
        return cls(kind, process_set=number, rank=process_set.rank(), size=process_set.size(), **more)

    @classmethod
    def reducing(
        cls: type[Kind], kind: str, process_set: ProcessSet, op: ReduceOp, scales: tuple[float, float], **more: Any
    ) -> Kind:
        """The same of a reduction. scales: before and after it."""
        kind, reduce = engine_names(op, kind)
        return cls.of(kind, process_set, reduce=reduce, prescale=float(scales[0]), postscale=float(scales[1]), **more)


def need_type(name: str, kind: str, op: ReduceOp | None, shape: str = "") -> None:
    """Raises UnsupportedError for a type, by its name in NumPy, that the operation does not support."""
    is_complex = name in ("complex64", "complex128")
    if not (name in _core.DTYPES or name in _BITS or is_complex):
        raise UnsupportedError(f"{kind} of {name}{shape}: Xoe does not support this type")
    if op is not None and name in _BITS and op not in (Sum, ReduceOp.Product):
        raise UnsupportedError(f"{op.name} of {name}{shape}; convert it to another type first")
    if op is not None and is_complex and op not in (Sum, Average):
        raise UnsupportedError(f"{op.name} of {name}{shape}: complex numbers support Sum and Average only")


def need_parts(op: ReduceOp) -> None:
    """Raises InvalidArgumentError for a reduction that reducescatter does not have."""
    if op is Adasum:
        raise InvalidArgumentError("reducescatter does not support Adasum")


def row_counts(splits: Any, values: Any) -> list[int]:
    """The rows for each rank. values: of ``splits``, where they are a tensor."""
    try:
        return [operator.index(rows) for rows in values]
    except TypeError:
        raise InvalidArgumentError(f"splits is {splits}; pass one integer for each rank") from None


def need_linear(call: Call, word: str) -> None:
    """Raises UnsupportedError for an operation that has no derivative, which the framework calls by this word."""
    if call.kind == "adasum" or (call.kind in ("allreduce", "reduce_scatter") and call.reduce not in _LINEAR):
        what = "Adasum" if call.kind == "adasum" else f"{call.kind} with op={call.reduce.capitalize()}"
        raise UnsupportedError(f"{what} has no {word}; only Sum and Average have one")


def run_by_type(
    call: Kind, arrays: Sequence[Any], types: Sequence[str], run: Callable[[Kind, list[Any]], list[Any]]
) -> list[Any]:
    """``run(call, arrays)``; an operation for each type where the engine wants one: compression on the wire, and Adasum. Other
    types than floats are not compressed.

    types: of the arrays, the same on all ranks.
    """
    if (call.kind != "adasum" and call.compression == 0) or (len(set(types)) == 1 and types[0] in _FLOATS):
        return run(call, list(arrays))
    results: list[Any] = [None] * len(arrays)
    for kind in dict.fromkeys(types):
        chosen = [index for index, one in enumerate(types) if one == kind]
        part = replace(call, name=f"{call.name}.{kind}" if call.name else "")
        if kind not in _FLOATS:
            part = replace(part, compression=0)
        for index, result in zip(chosen, run(part, [arrays[index] for index in chosen]), strict=True):
            results[index] = result
    return results


def join(device: int = -1) -> int:
    """Says that this rank has no more data. Until all ranks have joined it takes part in the others' reductions with the
    neutral element. Blocks; gives the rank that joined last. ``device`` is not needed.
    """
    del device
    operation = _world.current().engine.submit("", [], _core.Request(_core.KINDS["join"]))
    operation.wait()
    return operation.last_joined()


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Returns when all ranks of the set have called it."""
    _world.current().engine.submit("", [], _core.Request(_core.KINDS["barrier"], process_set=process_set._need())).wait()
