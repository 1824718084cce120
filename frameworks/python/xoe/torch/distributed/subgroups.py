"""What the subgroups of torch.distributed run on.

All ranks of the job call new_group, and adding a process set is collective over all ranks, but PyTorch calls a backend's
creator on the members only. So a function of PyTorch's that all ranks call is wrapped: for a group of this backend, the
wrapper first removes the process sets of groups that have been destroyed, which members do alone, and adds the new one. A
group that only its members make has an engine of its own.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextvars import ContextVar
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist
import torch.distributed.distributed_c10d as _c10d

from xoe import _core
from xoe import world as _world
from xoe.errors import UnsupportedError
from xoe.process_sets import ProcessSet, add_process_set, remove_process_set
from xoe.torch.distributed.initialize import initialize_engine
from xoe.torch.distributed.members import Members, job_name, make_engine, process_set_members, set_name
from xoe.torch.distributed.point_to_point import messages_of
from xoe.torch.tensors import DTYPES

if TYPE_CHECKING:
    from xoe._core import Engine

_added: dict[str, Members] = {}  # of the group that is being made, by its name
_sets: WeakKeyDictionary[Engine, list[ProcessSet]] = WeakKeyDictionary()  # of groups, alike on all ranks
_only_members_call: ContextVar[bool] = ContextVar("xoe_only_members_call", default=False)


def watch() -> None:
    """Wraps PyTorch's functions; does nothing when called again."""
    original: Any = getattr(_c10d, "_new_process_group_helper", None)
    if original is None or hasattr(original, "_xoe"):
        return
    signature = inspect.signature(original)

    @functools.wraps(original)
    def helper(*arguments: Any, **options: Any) -> Any:
        given = signature.bind(*arguments, **options).arguments
        if not given["global_ranks_in_group"] or not _is_ours(given["backend"]) or _is_local(given["group_name"]):
            return original(*arguments, **options)
        name = str(given["group_name"])
        _added[name] = _add(given)
        try:
            return original(*arguments, **options)
        finally:
            _added.pop(name, None)  # ranks that are not members make no group

    helper._xoe = True  # type: ignore[attr-defined]
    _c10d._new_process_group_helper = helper
    record: Any = getattr(_c10d, "_maybe_attach_flight_recorder", None)
    if record is not None:  # it needs a backend in C++
        _c10d._maybe_attach_flight_recorder = lambda group, *more: None if _is_group_of_ours(group) else record(group, *more)
    _c10d._find_or_create_pg_by_ranks_and_tag = _called_by_members(_c10d._find_or_create_pg_by_ranks_and_tag, lambda _: True)
    _c10d.new_subgroups = dist.new_subgroups = _called_by_members(
        _c10d.new_subgroups, lambda given: given.get("group") not in (None, dist.group.WORLD)
    )


def take(name: str, ranks: list[int], timeout: timedelta) -> Members:
    """What the new group of these ranks of the job runs on."""
    if _is_local(name):
        return make_engine(ranks, timeout)
    members = _added.pop(name, None)
    if members is None:
        raise UnsupportedError(
            f"the group of ranks {', '.join(map(str, ranks))} has no process set: import xoe.torch.distributed on all ranks"
            " before torch.distributed.new_group(backend='xoe')"
        )
    return members


def _called_by_members(function: Any, is_local: Callable[[dict[str, Any]], bool]) -> Any:
    """The function, which only the members of new groups may call; is_local: for these arguments."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        token = _only_members_call.set(_only_members_call.get() or is_local(signature.bind(*arguments, **options).arguments))
        try:
            return function(*arguments, **options)
        finally:
            _only_members_call.reset(token)

    return call


def _is_group_of_ours(group: Any) -> bool:
    return bool(group.name() == "xoe")


def _is_ours(backend: Any) -> bool:
    return any(pair.split(":")[-1] == "xoe" for pair in str(backend).lower().split(","))


def _is_local(name: Any) -> bool:
    """PyTorch numbers groups that all ranks make, and names the others by a hash. In a job whose members change, no engine has
    process sets for all of them."""
    return _only_members_call.get() or not str(name).isdecimal() or bool(job_name())


def _add(given: dict[str, Any]) -> Members:
    if not _world.is_initialized():
        default = _c10d._get_default_group()
        initialize_engine(given["store"], default.rank(), default.size(), given["timeout"])
    engine = _world.current().engine
    sets = _sets.setdefault(engine, [])
    for process_set in _destroyed(engine, sets):
        messages_of(engine).forget(set_name(process_set._need()))
        remove_process_set(process_set)
        sets.remove(process_set)
    sets.append(add_process_set(list(given["global_ranks_in_group"])))
    return process_set_members(_c10d._get_default_store(), sets[-1])


def _destroyed(engine: Engine, sets: list[ProcessSet]) -> list[ProcessSet]:
    """Those that no rank has a group of. Collective over the world."""
    if not sets:
        return []
    members = [getattr(group, "_members", None) for group in _c10d._world.pg_map]
    used = {one.process_set for one in members if one is not None and one.engine is engine}
    unused = torch.tensor([one.process_set_id not in used for one in sets], dtype=torch.uint8)
    at = unused.data_ptr()
    tensor = (at, at, unused.shape, DTYPES[unused.dtype])
    request = _core.Request(_core.KINDS["allreduce"], _core.REDUCTIONS["min"], needs_all_ranks=True)
    engine.submit("xoe.torch.distributed.destroyed", [tensor], request, keep=unused).wait()
    return [one for one, is_unused in zip(list(sets), unused.tolist(), strict=True) if is_unused]
