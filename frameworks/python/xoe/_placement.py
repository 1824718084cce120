"""Ranks that something else than `xoe run` starts, such as Ray or Spark: which rank each worker is, and the variables by which
it joins the others."""

from __future__ import annotations

import os
import secrets
import socket
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xoe._launcher_variables import OF_THE_LAUNCHER

# What a launcher around this process may have set: a worker that inherits it is no rank of that job.
_OF_ANOTHER_JOB = (
    *OF_THE_LAUNCHER,
    "XOE_JOB",
    "XOE_SECRET",
    "XOE_HOSTNAME",
    "XOE_STATUS",
    "XOE_WORLD",
    "XOE_TERMINAL",
    "GROUP_RANK",
    "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_RESTART_COUNT",
    "MASTER_ADDR",
    "MASTER_PORT",
)


@dataclass(frozen=True)
class Place:
    """Which rank a worker is."""

    rank: int
    size: int
    local_rank: int
    local_size: int
    cross_rank: int
    cross_size: int
    host: int  # the host's number


def places(hosts: Sequence[str]) -> list[Place]:
    """The place of each worker, given its host. The ranks of a host follow each other, in the order of the workers; the hosts
    are in the order of their first worker, so worker 0 is rank 0."""
    sizes = Counter(hosts)
    order = list(sizes)
    first = {host: sum(sizes[other] for other in order[:index]) for index, host in enumerate(order)}
    seen: Counter[str] = Counter()
    found = []
    for host in hosts:
        local = seen[host]
        seen[host] += 1
        across = [other for other in order if sizes[other] > local]
        found.append(
            Place(first[host] + local, len(hosts), local, sizes[host], across.index(host), len(across), order.index(host))
        )
    return found


def unique_names(names: Mapping[str, str]) -> dict[str, str]:
    """The hosts' names, by host; hosts of one name get numbers, since ranks with the same host name share memory."""
    given: Counter[str] = Counter()
    found = {}
    for host, name in names.items():
        given[name] += 1
        found[host] = name if given[name] == 1 else f"{name}-{given[name]}"
    return found


@dataclass(frozen=True)
class Job:
    """What all ranks of a job have in common. ``address``, ``port``: of rank 0's store; ``torch_port``: of
    torch.distributed's."""

    name: str
    secret: str
    address: str
    port: int
    torch_port: int

    def variables(self, place: Place, host: str) -> dict[str, str]:
        """The environment of a rank, on a host of this name. The secret is in it: give it to the process itself, never to a
        command."""
        at = f"[{self.address}]" if ":" in self.address else self.address
        return {
            "XOE_RANK": str(place.rank),
            "XOE_SIZE": str(place.size),
            "XOE_LOCAL_RANK": str(place.local_rank),
            "XOE_LOCAL_SIZE": str(place.local_size),
            "XOE_CROSS_RANK": str(place.cross_rank),
            "XOE_CROSS_SIZE": str(place.cross_size),
            "XOE_JOB": self.name,
            "XOE_SECRET": self.secret,
            "XOE_MEETING": f"{at}:{self.port}",
            "XOE_HOSTNAME": host,
            "RANK": str(place.rank),
            "WORLD_SIZE": str(place.size),
            "LOCAL_RANK": str(place.local_rank),
            "LOCAL_WORLD_SIZE": str(place.local_size),
            "GROUP_RANK": str(place.host),
            "TORCHELASTIC_RUN_ID": self.name,
            "MASTER_ADDR": self.address,
            "MASTER_PORT": str(self.torch_port),
        }


def new_secret() -> str:
    """A secret for a job."""
    return secrets.token_hex(32)


def free_ports(count: int) -> list[int]:
    """Ports of this host that are free at the moment."""
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("", 0))
        return [int(probe.getsockname()[1]) for probe in probes]
    finally:
        for probe in probes:
            probe.close()


def set_variables(variables: Mapping[str, str]) -> None:
    """Sets this process's environment for a job, without what it inherited from another one."""
    for name in _OF_ANOTHER_JOB:
        os.environ.pop(name, None)
    os.environ.update(variables)
