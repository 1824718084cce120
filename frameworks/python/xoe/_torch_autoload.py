"""PyTorch calls this at the end of ``import torch``: it registers the backend "xoe". Only variables make it load more."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qsl, urlsplit


def register() -> None:
    """Registers the backend ``torch.distributed.init_process_group("xoe")`` and the rendezvous of ``xoe run``. Never raises."""
    try:
        from torch import distributed as dist

        if dist.is_available() and "XOE" not in dist.Backend._plugins:
            dist.Backend.register_backend("xoe", _create, extended_api=True, devices=["cpu", "cuda"])
            if "XOE_RANK" in os.environ:
                _replace_rendezvous()
            if os.environ.get("XOE_TORCH_REPLACES"):
                _replace_backends()
    except Exception:  # a PyTorch without these interfaces does without the backend
        return


def _replace_backends() -> None:
    from xoe._torch_replaced import replace

    replace()


def _create(options: Any, backend_options: Any = None) -> Any:
    """The backend's factory for a new group; ``options`` are PyTorch's ``_DistributedBackendOptions``."""
    del backend_options
    from xoe import world
    from xoe.initialize import shutdown
    from xoe.torch.distributed import subgroups
    from xoe.torch.distributed.group import Group
    from xoe.torch.distributed.initialize import initialize_engine
    from xoe.torch.distributed.members import Members, set_name
    from xoe.torch.distributed.reconfigure import ReconfigurableGroup

    ranks, name, timeout = list(options.global_ranks_in_group), str(options.group_id), options.timeout
    if getattr(options, "enable_reconfigure", False):
        return ReconfigurableGroup(options.store, options.group_rank, options.group_size, name, timeout)
    if ranks:
        members = subgroups.take(name, ranks, timeout)
    else:
        started = initialize_engine(options.store, options.group_rank, options.group_size, timeout)
        end = shutdown if started else None
        members = Members(world.current().engine, 0, set_name(0), options.store, end, shutdown)
    return Group(options.store, options.group_rank, options.group_size, name, timeout, members)


def _replace_rendezvous() -> None:
    """Makes ranks of ``xoe run`` rendezvous through the engine, for every backend: MASTER_PORT may be taken."""
    handlers: Any = importlib.import_module("torch.distributed.rendezvous")._rendezvous_handlers
    original: Any = handlers["env"]

    def handler(url: str, timeout: timedelta = timedelta(minutes=30), **more: Any) -> Iterator[tuple[Any, int, int]]:
        from xoe import world

        given = dict(parse_qsl(urlsplit(url).query))
        launched = {"rank": os.environ["XOE_RANK"], "world_size": os.environ["XOE_SIZE"]}
        if world.is_initialized():  # where ranks come and go, variables have what was true at the start
            launched = {"rank": str(world.rank()), "world_size": str(world.size())}
        if any(given.get(name, value) not in (value, "-1") for name, value in launched.items()):
            # Not the group of the whole job.
            yield from original(url, timeout=timeout, **more)
            return
        from xoe.torch.distributed.rendezvous import rendezvous

        yield from rendezvous(timeout)

    handlers["env"] = handler
