"""``horovod.runner.run``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import xoe


def run(
    func: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    num_proc: int | None = None,
    min_num_proc: int | None = None,
    max_num_proc: int | None = None,
    *,
    network_interface: str | None = None,
    network_interfaces: str | Sequence[str] | None = None,
    mpi_args: Any = None,
    min_np: int | None = None,
    max_np: int | None = None,
    **options: Any,
) -> list[Any]:
    """:func:`xoe.run` of a function that calls ``hvd.init()`` itself, as Horovod's do: before that, ``hvd.rank()`` raises.
    ``min_np``, ``max_np`` and ``network_interface`` are older names; ``mpi_args`` has no effect."""
    del mpi_args
    interfaces = network_interface or network_interfaces
    return xoe.run(
        func,
        args,
        kwargs,
        num_proc,
        min_num_proc=min_num_proc if min_np is None else min_np,
        max_num_proc=max_num_proc if max_np is None else max_np,
        network_interfaces=interfaces if interfaces is None or isinstance(interfaces, str) else ",".join(interfaces),
        initialize=False,
        **options,
    )
