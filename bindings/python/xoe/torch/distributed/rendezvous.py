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
from xoe.objects import broadcast_object
from xoe.torch.distributed.initialize import host_name, initialize_engine


def rendezvous(timeout: timedelta) -> Iterator[tuple[Any, int, int]]:
    """A rendezvous handler of ``torch.distributed``: yields a store, this rank and the number of ranks. Collective."""
    rank, size = int(os.environ["XOE_RANK"]), int(os.environ["XOE_SIZE"])
    initialize_engine(None, rank, size, timeout)
    alone = _world.local_size() == size
    host = "127.0.0.1" if alone else host_name()
    store = None
    if rank == 0:
        store = _serve_here(size, timeout) if alone else TCPStore(host, 0, size, True, timeout, wait_for_workers=False)
    host, port = broadcast_object((host, store.port if store else 0), 0, name="xoe.torch.distributed.rendezvous")
    if store is None:
        store = TCPStore(host, port, size, False, timeout, wait_for_workers=False)
    # Rank 0 may destroy its group, and the store with it, as soon as it has left.
    connected = _core.Request(_core.KINDS["barrier"])
    _world.current().engine.submit("xoe.torch.distributed.rendezvous.connected", [], connected).wait()
    yield store, rank, size
    raise RuntimeError("xoe run: this rendezvous has been used; torch.distributed cannot repeat it")


def _serve_here(size: int, timeout: timedelta) -> TCPStore:
    """A store that other hosts do not reach: a TCPStore serves every client, on all addresses if it is left to itself."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=size)
    port = listener.getsockname()[1]
    fd = listener.detach()  # the store closes it
    options: dict[str, Any] = {"wait_for_workers": False, "master_listen_fd": fd}
    try:
        return TCPStore("127.0.0.1", port, size, True, timeout, **options)
    except NotImplementedError:  # PyTorch 2.4, unless it uses its older implementation
        return TCPStore("127.0.0.1", port, size, True, timeout, **options, use_libuv=False)
