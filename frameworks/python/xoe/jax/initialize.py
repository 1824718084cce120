"""``jax.distributed`` from the launcher's environment."""

from __future__ import annotations

import socket
from typing import Any

import jax

from xoe import world as _world
from xoe._addresses import host_name, own_address
from xoe.initialize import init
from xoe.objects import broadcast_object


def initialize(**options: Any) -> None:
    """Calls ``xoe.init()`` and then ``jax.distributed.initialize()`` with this job's coordinator, ranks and size.

    For programs with arrays over all processes (``jax.make_mesh``, ``jax.jit`` with shardings); ``xoe.jax``'s own
    collectives do not need it. The coordinator runs in rank 0. options: those of ``jax.distributed.initialize()``, such as
    ``local_device_ids``.
    """
    init()
    address = broadcast_object(_address() if _world.rank() == 0 else None)
    jax.distributed.initialize(address, _world.size(), _world.rank(), **options)


def _address() -> str:
    """Where all ranks reach this process, with a free port."""
    host = own_address(alone=_world.local_size() == _world.size()) or host_name()
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.bind((host, 0))
        port = probe.getsockname()[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
