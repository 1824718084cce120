"""What the collectives of every framework share: the checks of their arguments, and the operations without tensors."""

from __future__ import annotations

import operator
from typing import Any

from xoe import _core
from xoe import world as _world
from xoe.errors import InvalidArgumentError, UnsupportedError
from xoe.process_sets import ProcessSet, global_process_set
from xoe.reduction import Adasum, Average, ReduceOp, Sum

_BITS = frozenset(("uint16", "uint32", "uint64"))  # moved as signed integers of the same size: sums wrap to the same bits


def engine_names(op: ReduceOp, kind: str) -> tuple[str, str]:
    """The engine's names of an operation of this kind and of its reduction: Adasum is a kind of its own."""
    return ("adasum", "sum") if op is Adasum else (kind, op.name.lower())


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
