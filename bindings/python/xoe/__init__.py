"""Xoe: distributed data-parallel training, fast and hard to break.

Most programs need ``import xoe.torch as hvd``; this module has the functions that do not depend on a framework::

    import xoe
    xoe.init()
    print(xoe.rank(), "of", xoe.size())

``xoe.run(function, np=4)`` starts a function on several processes, for notebooks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xoe.errors import (
        DataLossError,
        HorovodInternalError,
        HostsUpdatedInterrupt,
        InternalError,
        InvalidArgumentError,
        MismatchError,
        NotInitializedError,
        OperationTimeoutError,
        PeerLostError,
        ResourceExhaustedError,
        UnavailableError,
        UnsupportedError,
        XoeError,
    )
    from xoe.process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set
    from xoe.runner import run
    from xoe.world import (
        cross_rank,
        cross_size,
        init,
        is_homogeneous,
        is_initialized,
        local_rank,
        local_size,
        metrics,
        rank,
        shutdown,
        size,
        start_timeline,
        stop_timeline,
    )

__version__ = "0.1.0"

# The module of each public name, imported on first use, so that `import xoe` is fast.
_HOMES = {
    "xoe.errors": (
        "DataLossError",
        "HorovodInternalError",
        "HostsUpdatedInterrupt",
        "InternalError",
        "InvalidArgumentError",
        "MismatchError",
        "NotInitializedError",
        "OperationTimeoutError",
        "PeerLostError",
        "ResourceExhaustedError",
        "UnavailableError",
        "UnsupportedError",
        "XoeError",
    ),
    "xoe.process_sets": ("ProcessSet", "add_process_set", "global_process_set", "remove_process_set"),
    "xoe.runner": ("run",),
    "xoe.world": (
        "cross_rank",
        "cross_size",
        "init",
        "is_homogeneous",
        "is_initialized",
        "local_rank",
        "local_size",
        "metrics",
        "rank",
        "shutdown",
        "size",
        "start_timeline",
        "stop_timeline",
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

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


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'xoe' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF})
