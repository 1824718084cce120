"""``horovod.spark.run``."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import xoe.spark
from xoe.errors import UnsupportedError


def run(
    fn: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] = {},
    num_proc: int | None = None,
    start_timeout: float | None = None,
    use_mpi: bool | None = None,
    use_gloo: bool | None = None,
    extra_mpi_args: Any = None,
    env: Mapping[str, str] | None = None,
    stdout: Any = None,
    stderr: Any = None,
    verbose: int = 1,
    nics: Any = None,
    prefix_output_with_timestamp: bool = False,
    executable: str | None = None,
) -> list[Any]:
    """Calls ``fn`` on ranks in tasks of Spark; see ``xoe.spark.run``. As in Horovod, the function calls ``hvd.init()``.

    use_mpi, use_gloo, extra_mpi_args, verbose and prefix_output_with_timestamp have no effect.
    """
    del use_mpi, use_gloo, extra_mpi_args, verbose, prefix_output_with_timestamp
    timeout = float(os.environ.get("HOROVOD_SPARK_START_TIMEOUT", 600)) if start_timeout is None else start_timeout
    return xoe.spark.run(
        fn,
        args,
        kwargs,
        num_proc,
        start_timeout=timeout,
        env={"XOE_START_TIMEOUT": f"{max(1, timeout):.0f}", **(env or {})},
        stdout=stdout,
        stderr=stderr,
        executable=executable,
        network_interface=",".join(sorted([nics] if isinstance(nics, str) else nics)) if nics else None,
        join=False,
    )


def run_elastic(*args: Any, **kwargs: Any) -> NoReturn:
    """Refuses, and says what to use."""
    del args, kwargs
    raise UnsupportedError(
        "horovod.spark.run_elastic is not supported: a job on Spark keeps its ranks; use horovod.spark.run, or xoe.spark.run"
        " with retries=, which starts again after a rank was lost, and save checkpoints"
    )
