"""Xoe: distributed data-parallel training, fast and hard to break.

Most programs need ``import xoe.torch as hvd``; this module has the functions that do not depend on a framework::

    import xoe
    xoe.init()
    print(xoe.rank(), "of", xoe.size())

``xoe.run(function, np=4)`` starts a function on several processes, for notebooks.
"""

# ruff: noqa: F403, F405
from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # of these, the names in __all__
    from xoe.errors import *
    from xoe.initialize import *
    from xoe.process_sets import *
    from xoe.runner import *
    from xoe.topology import *
    from xoe.world import *

__version__: str

__all__ = [
    "DataLossError",
    "HorovodInternalError",
    "HostsUpdatedInterrupt",
    "InternalError",
    "InvalidArgumentError",
    "MismatchError",
    "NotInitializedError",
    "OperationTimeoutError",
    "PeerLostError",
    "ProcessSet",
    "ResourceExhaustedError",
    "UnavailableError",
    "UnsupportedError",
    "XoeError",
    "add_process_set",
    "cross_rank",
    "cross_size",
    "global_process_set",
    "init",
    "is_homogeneous",
    "is_initialized",
    "local_rank",
    "local_size",
    "metrics",
    "rank",
    "remove_process_set",
    "run",
    "shutdown",
    "size",
    "start_timeline",
    "stop_timeline",
]

# The modules that have these names, imported on first use, so that `import xoe` is fast.
_HOMES = ("xoe.errors", "xoe.process_sets", "xoe.world", "xoe.initialize", "xoe.runner", "xoe.topology")


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in __all__:
        for home in map(import_module, _HOMES):
            if hasattr(home, name):
                return globals().setdefault(name, getattr(home, name))
    if name == "__version__":
        return globals().setdefault(name, import_module("xoe._core").__version__)
    raise AttributeError(f"module 'xoe' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
