"""The backend "xoe" in place of PyTorch's own, for programs that name one of those in their code.

``XOE_TORCH_REPLACES=gloo,nccl``: where a program asks ``init_process_group()`` or ``new_group()`` for one of these backends, or
leaves the choice to PyTorch and PyTorch would choose one of them, it gets "xoe", which ``get_backend()`` then says.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable
from typing import Any

VARIABLE = "XOE_TORCH_REPLACES"
_REPLACEABLE = ("gloo", "mpi", "nccl", "ucc")
_CALLS = ("init_process_group", "new_group")


def wanted() -> tuple[str, ...]:
    """The backends that :data:`VARIABLE` names."""
    names = tuple(name.strip().lower() for name in os.environ.get(VARIABLE, "").split(",") if name.strip())
    unknown = [name for name in names if name not in _REPLACEABLE]
    if unknown:
        raise ValueError(
            f"{VARIABLE} names the backend {unknown[0]!r}; it may name, separated by commas: {', '.join(_REPLACEABLE)}"
        )
    return names


def replaced(backend: str, names: tuple[str, ...]) -> str:
    """What to ask PyTorch for instead of ``backend``, which is one name, or ``"cpu:gloo,cuda:nccl"``."""
    pairs = [pair.rpartition(":") for pair in backend.split(",")]
    return ",".join(f"{device}{colon}{'xoe' if name.strip().lower() in names else name}" for device, colon, name in pairs)


def replace() -> None:
    """Makes PyTorch's calls do so, also where its modules have taken them from each other."""
    from torch.distributed import distributed_c10d as c10d

    for call in _CALLS:
        original = getattr(c10d, call)
        instead = _replacing(original, call == "init_process_group")
        for name, module in list(sys.modules.items()):
            if name.partition(".")[0] == "torch" and vars(module).get(call) is original:
                setattr(module, call, instead)


def _replacing(original: Callable[..., Any], may_choose: bool) -> Callable[..., Any]:
    signature = inspect.signature(original)

    @functools.wraps(original)
    def call(*arguments: Any, **options: Any) -> Any:
        given = signature.bind(*arguments, **options)
        names, backend = wanted(), given.arguments.get("backend")
        if backend is None and may_choose:
            backend = _default()
        if backend is not None and replaced(backend, names) != backend:
            given.arguments["backend"] = replaced(backend, names)
        return original(*given.args, **given.kwargs)

    return call


def _default() -> str:
    """What PyTorch chooses by itself on this host."""
    import torch

    return "nccl" if torch.cuda.is_available() else "gloo"
