"""Process sets for torch.distributed.new_group.

All ranks of the job call new_group, and adding a process set is collective over all ranks, but PyTorch calls a backend's
creator on the members only. So a function of PyTorch's that all ranks call is wrapped: for a group of this backend, the
wrapper first adds the process set.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any

import torch.distributed.distributed_c10d as _c10d

from xoe import world as _world
from xoe.errors import UnsupportedError
from xoe.process_sets import ProcessSet, add_process_set
from xoe.torch.distributed.initialize import initialize_engine

_added: dict[str, ProcessSet] = {}  # by the group's name, until its creator takes it


def watch() -> None:
    """Wraps PyTorch's function; does nothing when called again."""
    original: Any = getattr(_c10d, "_new_process_group_helper", None)
    if original is None or hasattr(original, "_xoe"):
        return
    signature = inspect.signature(original)

    @functools.wraps(original)
    def helper(*arguments: Any, **options: Any) -> Any:
        given = signature.bind(*arguments, **options).arguments
        if given["global_ranks_in_group"] and _is_ours(given["backend"]):
            _add(given)
        return original(*arguments, **options)

    helper._xoe = True  # type: ignore[attr-defined]
    _c10d._new_process_group_helper = helper


def take(name: str, ranks: list[int]) -> ProcessSet:
    """The process set of a new group."""
    process_set = _added.pop(name, None)
    if process_set is None:
        raise UnsupportedError(
            f"the group of ranks {', '.join(map(str, ranks))} has no process set: import xoe.torch.distributed on all ranks"
            " before torch.distributed.new_group(backend='xoe')"
        )
    return process_set


def _is_ours(backend: Any) -> bool:
    return any(pair.split(":")[-1] == "xoe" for pair in str(backend).lower().split(","))


def _add(given: dict[str, Any]) -> None:
    name = str(given["group_name"])
    if not name.isdecimal():  # PyTorch numbers groups that all ranks create, and names the others by a hash
        raise UnsupportedError(
            "the backend xoe does not support new_group(use_local_synchronization=True): all ranks must agree on a group;"
            " call new_group on all ranks without it"
        )
    if not _world.is_initialized():
        default = _c10d._get_default_group()
        initialize_engine(given["store"], default.rank(), default.size(), given["timeout"])
    _added[name] = add_process_set(list(given["global_ranks_in_group"]))
