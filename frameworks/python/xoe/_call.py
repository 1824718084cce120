"""Operations of the engine as values, which the programs of JAX and TensorFlow hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from xoe._collective import engine_names
from xoe.errors import UnsupportedError
from xoe.process_sets import ProcessSet
from xoe.reduction import ReduceOp

_FLOATS = frozenset(("float16", "bfloat16", "float32", "float64"))
_LINEAR = ("sum", "average")
Kind = TypeVar("Kind", bound="Call")


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

    def shape_in_program(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of the result for an array of this shape, in a compiled program, which has to know it before it runs: all
        ranks give the same shape."""
        if self.kind == "allgather":
            return (shape[0] * self.size, *shape[1:])
        if self.kind == "reduce_scatter":
            rows, longer = divmod(shape[0], self.size)
            return (rows + (self.rank < longer), *shape[1:])
        return shape


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
