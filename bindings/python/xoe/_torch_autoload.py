"""What PyTorch calls at the end of ``import torch``: makes the backend "xoe" known, and loads nothing else for it."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qsl, urlsplit


def register() -> None:
    """Makes ``torch.distributed.init_process_group("xoe")`` work, also under ``xoe run``. Never raises."""
    try:
        from torch import distributed as dist

        if dist.is_available() and "XOE" not in dist.Backend._plugins:
            dist.Backend.register_backend("xoe", _create, extended_api=True, devices=["cpu", "cuda"])
            if "XOE_RANK" in os.environ:
                _serve_meetings()
    except Exception:  # a PyTorch that is made differently goes without the backend
        return


def _create(options: Any, backend_options: Any = None) -> Any:
    from xoe.torch.distributed.creation import create

    return create(options, backend_options)


def _serve_meetings() -> None:
    """Ranks of ``xoe run`` meet where the engine says, whatever their backend. Nobody has seen whether MASTER_PORT is free."""
    handlers: Any = importlib.import_module("torch.distributed.rendezvous")._rendezvous_handlers
    of_environment: Any = handlers["env"]

    def handler(url: str, timeout: timedelta = timedelta(minutes=30), **more: Any) -> Iterator[tuple[Any, int, int]]:
        asked = dict(parse_qsl(urlsplit(url).query))
        place = {"rank": os.environ["XOE_RANK"], "world_size": os.environ["XOE_SIZE"]}
        if any(asked.get(name, value) not in (value, "-1") for name, value in place.items()):  # a group that is not the job
            yield from of_environment(url, timeout=timeout, **more)
            return
        from xoe.torch.distributed.meeting import meet

        yield from meet(timeout)

    handlers["env"] = handler
