"""The rendezvous of torch.distributed under ``xoe run``: at a TCPStore of rank 0, whose address the engine broadcasts."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from torch._C._distributed_c10d import TCPStore

from xoe import _core
from xoe import world as _world
from xoe._addresses import host_name, own_address
from xoe.objects import broadcast_object
from xoe.torch.distributed.initialize import initialize_engine


def rendezvous(timeout: timedelta) -> Iterator[tuple[Any, int, int]]:
    """A rendezvous handler of ``torch.distributed``: yields a store, this rank and the number of ranks. Collective."""
    if not _world.is_initialized():
        initialize_engine(None, int(os.environ["XOE_RANK"]), int(os.environ["XOE_SIZE"]), timeout)
    rank, size = _world.rank(), _world.size()
    store = None
    if rank == 0:
        store = _serve(own_address(alone=_world.local_size() == size), size, timeout)
    at = (store.host, store.port) if store else None
    host, port = broadcast_object(at, 0, name="xoe.torch.distributed.rendezvous")
    if store is None:
        store = TCPStore(host, port, size, False, timeout, wait_for_workers=False)
    # Rank 0 may destroy its group, and the store with it, as soon as it has left.
    connected = _core.Request(_core.KINDS["barrier"])
    _world.current().engine.submit("xoe.torch.distributed.rendezvous.connected", [], connected).wait()
    yield store, rank, size
    raise RuntimeError("xoe run: this rendezvous has been used; torch.distributed cannot repeat it")


def _serve(address: str, size: int, timeout: timedelta) -> TCPStore:
    """A store at this address alone: a TCPStore serves every client, and left to itself it listens on all addresses."""
    if not address:
        return TCPStore(host_name(), 0, size, True, timeout, wait_for_workers=False)
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.create_server((address, 0), family=family, backlog=size)
    port = listener.getsockname()[1]
    fd = listener.detach()  # the store closes it
    options: dict[str, Any] = {"wait_for_workers": False, "master_listen_fd": fd}
    try:
        return TCPStore(address, port, size, True, timeout, **options)
    except NotImplementedError:  # PyTorch 2.4, unless it uses its older implementation
        return TCPStore(address, port, size, True, timeout, **options, use_libuv=False)
