"""Horovod's names on Xoe; ``import horovod.torch as hvd`` is ``import xoe.torch as hvd``."""

from __future__ import annotations

import os
from typing import Any

import xoe
from xoe._addresses import host_name

__version__ = f"0.28.1+xoe.{xoe.__version__}"

__all__ = ["run"]

# What Horovod's launcher sets, for programs that read it.
for _name in ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE"):
    if f"XOE_{_name}" in os.environ:
        os.environ.setdefault(f"HOROVOD_{_name}", os.environ[f"XOE_{_name}"])
if "XOE_RANK" in os.environ:
    os.environ.setdefault("HOROVOD_HOSTNAME", host_name())


def __getattr__(name: str) -> Any:
    if name == "run":
        from horovod.runner import run

        return run
    raise AttributeError(f"module 'horovod' has no attribute {name!r}")
