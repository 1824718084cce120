"""Starts the engine from the rank and store that torch.distributed passes to a backend."""

from __future__ import annotations

import json
import os
import secrets
import socket
from datetime import timedelta
from typing import Any

from xoe import world as _world
from xoe._variables import variables
from xoe.errors import InvalidArgumentError

# The variables in which launchers pass rank and size, in the order in which the engine reads them.
_LAUNCHERS = (
    ("xoe run", "XOE_RANK", "XOE_SIZE"),
    ("torchrun", "RANK", "WORLD_SIZE"),
    ("Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("MPICH", "PMI_RANK", "PMI_SIZE"),
    ("Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
)

_exchanges = 0  # how often ranks have exchanged their hosts, for keys of the store


def initialize_engine(store: Any, rank: int, size: int, timeout: timedelta) -> bool:
    """Starts the engine; False: it was running already. Collective over all ranks of the job.

    Raises InvalidArgumentError where rank and size differ from the launcher's.
    """
    started = not _world.is_initialized()
    if started:
        with variables({**_missing_variables(store, rank, size), **_deadlines(timeout)}):
            patience = None if "XOE_START_TIMEOUT" in os.environ else timeout.total_seconds()
            _world.init(start_timeout=patience)
    at = _world.current()
    if (at.rank, at.size) != (rank, size):
        message = _conflict("the engine", at.rank, at.size, rank, size)
        if started:
            _world.shutdown()
        raise InvalidArgumentError(message)
    return started


def _conflict(who: str, their_rank: Any, their_size: Any, rank: int, size: int) -> str:
    return (
        f"init_process_group was given rank {rank} of {size}, but {who} says rank {their_rank} of {their_size};"
        " pass the same to both, or leave rank and world_size to the launcher"
    )


def _deadlines(timeout: timedelta) -> dict[str, str]:
    """The group's timeout limits how long operations wait for ranks, unless the environment sets these limits."""
    seconds = f"{timeout.total_seconds():g}"
    return {name: seconds for name in ("XOE_TIMEOUT", "XOE_STALL_LIMIT") if name not in os.environ}


def _missing_variables(store: Any, rank: int, size: int) -> dict[str, str]:
    """The variables that describe this rank to the engine; none where a launcher has set them."""
    launcher = _launcher()
    if launcher is not None:
        who, their_rank, their_size = launcher
        if (their_rank, their_size) == (str(rank), str(size)):
            return {}
        if who in ("xoe run", "torchrun"):
            raise InvalidArgumentError(_conflict(who, their_rank, their_size, rank, size))
    return _torchrun_variables(store, rank, size)


def _launcher() -> tuple[str, str, str] | None:
    for who, rank, size in _LAUNCHERS:
        if who == "torchrun" and "TORCHELASTIC_RUN_ID" not in os.environ:
            continue  # RANK and WORLD_SIZE alone do not describe hosts
        if rank in os.environ:
            return who, os.environ[rank], os.environ.get(size, "")
    return None


def _torchrun_variables(store: Any, rank: int, size: int) -> dict[str, str]:
    """Torchrun's variables, for processes without a known launcher: ranks exchange their hosts through the store."""
    global _exchanges
    keys = f"xoe/{_exchanges}"
    _exchanges += 1
    host = os.environ.get("XOE_HOSTNAME") or socket.gethostname()
    token = secrets.token_hex(8) if rank == 0 else ""
    store.set(f"{keys}/{rank}", json.dumps([host, token]))
    received = [json.loads(store.get(f"{keys}/{other}")) for other in range(size)]
    hosts = [str(name) for name, _ in received]
    order = list(dict.fromkeys(hosts))
    several = len(order) > 1
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(size),
        "LOCAL_RANK": str(hosts[:rank].count(host)),
        "LOCAL_WORLD_SIZE": str(hosts.count(host)),
        "GROUP_RANK": str(order.index(host)),
        "GROUP_WORLD_SIZE": str(len(order)),
        "MASTER_ADDR": os.environ.get("MASTER_ADDR", hosts[0] if several else "127.0.0.1"),
        "MASTER_PORT": os.environ.get("MASTER_PORT", "0"),
        "TORCHELASTIC_RUN_ID": str(received[0][1]),
        "TORCHELASTIC_RESTART_COUNT": "0",
    }
