"""Horovod's names on Xoe; ``import horovod.torch as hvd`` is ``import xoe.torch as hvd``."""

from __future__ import annotations

from typing import Any

import xoe

__version__ = f"0.28.1+xoe.{xoe.__version__}"

__all__ = ["run"]


def __getattr__(name: str) -> Any:
    if name == "run":
        return xoe.run
    raise AttributeError(f"module 'horovod' has no attribute {name!r}")
