"""Starts the engine from the rank and store that torch.distributed passes to a backend."""

from __future__ import annotations

import json
import os
import secrets
from datetime import timedelta
from typing import Any

from torch.distributed.constants import default_pg_timeout

from xoe import world as _world
from xoe._addresses import host_name
from xoe._temporary_variables import variables
from xoe.errors import InvalidArgumentError
from xoe.initialize import init, shutdown

# The variables in which launchers pass rank and size, in the order in which the engine reads them.
_LAUNCHERS = (
    ("xoe run", "XOE_RANK", "XOE_SIZE"),
    ("torchrun", "RANK", "WORLD_SIZE"),
    ("Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("MPICH", "PMI_RANK", "PMI_SIZE"),
    ("Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
)

_exchanges = 0  # how often the ranks of the job have exchanged their hosts, for keys of the store


def initialize_engine(store: Any, rank: int, size: int, timeout: timedelta) -> bool:
    """Starts the engine; False: it was running already. Collective over all ranks of the job.

    Raises InvalidArgumentError where rank and size differ from the launcher's.
    """
    started = not _world.is_initialized()
    if started:
        with variables({**_missing_variables(store, rank, size), **deadlines(timeout)}):
            start_timeout = None if "XOE_START_TIMEOUT" in os.environ else timeout.total_seconds()
            init(start_timeout=start_timeout)
    at = _world.current()
    if (at.rank, at.size) != (rank, size):
        message = _conflict("the engine", at.rank, at.size, rank, size)
        if started:
            shutdown()
        raise InvalidArgumentError(message)
    return started


def _conflict(who: str, their_rank: Any, their_size: Any, rank: int, size: int) -> str:
    return (
        f"init_process_group was given rank {rank} of {size}, but {who} says rank {their_rank} of {their_size};"
        " pass the same to both, or leave rank and world_size to the launcher"
    )


def deadlines(timeout: timedelta) -> dict[str, str]:
    """The group's timeout limits how long operations wait for ranks, unless the environment sets these limits."""
    seconds = f"{timeout.total_seconds():g}"
    return {name: seconds for name in ("XOE_TIMEOUT", "XOE_STALL_LIMIT") if name not in os.environ}


def operation_timeout(timeout: timedelta) -> float:
    """How many seconds an operation of a group with this timeout waits for ranks. 0: the engine's limit, for PyTorch's default
    timeout where the environment sets a limit."""
    limited = any(name in os.environ for name in ("XOE_TIMEOUT", "XOE_STALL_LIMIT"))
    return 0.0 if limited and timeout == default_pg_timeout else timeout.total_seconds()


def _missing_variables(store: Any, rank: int, size: int) -> dict[str, str]:
    """The variables that describe this rank to the engine; none where a launcher has set them."""
    launcher = _launcher()
    if launcher is not None:
        who, their_rank, their_size = launcher
        if (their_rank, their_size) == (str(rank), str(size)):
            return {}
        if who in ("xoe run", "torchrun"):
            raise InvalidArgumentError(_conflict(who, their_rank, their_size, rank, size))
    return describe_ranks(store, rank, size)


def _launcher() -> tuple[str, str, str] | None:
    for who, rank, size in _LAUNCHERS:
        if who == "torchrun" and "TORCHELASTIC_RUN_ID" not in os.environ:
            continue  # RANK and WORLD_SIZE alone do not describe hosts
        if rank in os.environ:
            return who, os.environ[rank], os.environ.get(size, "")
    return None


def describe_ranks(store: Any, rank: int, size: int, members: str = "") -> dict[str, str]:
    """Torchrun's variables, for ranks that no launcher has described: they exchange their hosts through the store.

    members: a name for this meeting, of ranks that are not the whole job. They meet at the host of the first of them.
    """
    global _exchanges
    keys = _meeting(members or _exchanges)
    _exchanges += 0 if members else 1
    host = host_name()
    token = secrets.token_hex(8) if rank == 0 else ""
    store.set(f"{keys}/{rank}", json.dumps([host, token]))
    received = [json.loads(store.get(f"{keys}/{other}")) for other in range(size)]
    described = ranks_at([str(name) for name, _ in received], rank, str(received[0][1]))
    if not members and "MASTER_ADDR" in os.environ:
        described["MASTER_ADDR"] = os.environ["MASTER_ADDR"]
    return described


def ranks_at(hosts: list[str], rank: int, job: str) -> dict[str, str]:
    """Torchrun's variables for one of the ranks on these hosts, that meet at the first of them under the name of a job."""
    host = hosts[rank]
    order = list(dict.fromkeys(hosts))
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(len(hosts)),
        "LOCAL_RANK": str(hosts[:rank].count(host)),
        "LOCAL_WORLD_SIZE": str(hosts.count(host)),
        "GROUP_RANK": str(order.index(host)),
        "GROUP_WORLD_SIZE": str(len(order)),
        "MASTER_ADDR": hosts[0] if len(order) > 1 else "127.0.0.1",
        "MASTER_PORT": os.environ.get("MASTER_PORT", "0"),
        "TORCHELASTIC_RUN_ID": job,
        "TORCHELASTIC_RESTART_COUNT": "0",
    }


def forget_ranks(store: Any, rank: int, members: str) -> None:
    """Removes what describe_ranks() has told the others."""
    store.delete_key(f"{_meeting(members)}/{rank}")


def _meeting(name: str | int) -> str:
    return f"xoe/{name}"
