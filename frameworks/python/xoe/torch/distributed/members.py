"""Engines of the groups that only their members make, and what a group of torch.distributed runs on."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch.distributed.distributed_c10d as _c10d
from torch._C._distributed_c10d import PrefixStore

from xoe import world as _world
from xoe._launcher_variables import OF_THE_LAUNCHER
from xoe._temporary_variables import variables
from xoe.initialize import shutdown
from xoe.torch.distributed.initialize import deadlines, describe_ranks, forget_ranks
from xoe.torch.distributed.point_to_point import messages_of

if TYPE_CHECKING:
    from xoe._core import Engine
    from xoe.process_sets import ProcessSet

# What the launcher says of the whole job, and files and ports that the job's engine has.
_OF_THE_JOB = (
    *OF_THE_LAUNCHER,
    "XOE_PRETEND_HOSTS",
    "XOE_TIMELINE",
    "HOROVOD_TIMELINE",
    "XOE_METRICS_PORT",
)

_making = threading.Lock()  # one engine at a time reads the environment
_made: Counter[str] = Counter()  # engines, by their ranks


@dataclass
class Members:
    """A process set of an engine.

    name: the same on all of its ranks; PyTorch's name of the group may differ if ranks have made groups without the others.
    store: in which they have this name. close: ends the engine; None: others use it too. abort: fails all of its operations.
    """

    engine: Engine
    process_set: int
    name: str
    store: Any
    close: Callable[[], None] | None
    abort: Callable[[], None]


def job_name() -> str:
    """Names the members of the job, where these change; else empty."""
    return str(getattr(_c10d._get_default_group(), "job", ""))


def make_engine(ranks: list[int], timeout: timedelta) -> Members:
    """An engine of these ranks of the job, one of which is this one. Collective over them."""
    store, rank = _c10d._get_default_store(), ranks.index(_c10d._get_default_group().rank())
    known = f"{job_name()}ranks {'-'.join(map(str, ranks))}"
    name = f"{known}/{_made[known]}"
    _made[known] += 1
    described = describe_ranks(store, rank, len(ranks), members=name)
    members = start_engine(described, name, store, timeout)
    forget_ranks(store, rank, name)  # all members have come, and have read it
    return members


def start_engine(described: dict[str, str], name: str, store: Any, timeout: timedelta) -> Members:
    """An engine of ranks that find each other by these variables. Collective over them."""
    from xoe._core import Engine

    with _making, variables({**dict.fromkeys(_OF_THE_JOB), **described, **deadlines(timeout)}):
        engine = Engine(timeout.total_seconds(), [])
    return Members(engine, 0, name, PrefixStore(f"xoe/{name}/", store), engine.shutdown, engine.shutdown)


def set_name(process_set: int) -> str:
    """The name of what runs on a process set of the world's engine."""
    return f"set {process_set}"


def process_set_members(store: Any, process_set: ProcessSet) -> Members:
    """A process set of the world's engine; ``store`` is the job's. Collective over the job."""
    messages_of(_world.current().engine)
    number = process_set._need()
    name = set_name(number)
    return Members(_world.current().engine, number, name, PrefixStore(f"xoe/{name}/", store), None, shutdown)
