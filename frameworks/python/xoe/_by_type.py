"""Groups of several types, where the engine wants one: compression on the wire, and Adasum."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

_FLOATS = frozenset(("float16", "bfloat16", "float32", "float64"))


def run_by_type(
    call: Any, arrays: Sequence[Any], types: Sequence[str], run: Callable[[Any, list[Any]], list[Any]]
) -> list[Any]:
    """``run(call, arrays)``; an operation for each type where that is needed. Other types than floats are not compressed.

    call: of a framework's binding, with ``kind``, ``compression`` (0: none) and ``name``. types: of the arrays, the same on
        all ranks.
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
