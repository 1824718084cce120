"""Where an estimator trains."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xoe.spark.job import default_num_proc, run


class Backend:
    """Calls the training function on ranks. One of your own may start them elsewhere, for example with :func:`xoe.run`."""

    def run(
        self,
        fn: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> list[Any]:
        """The results of ``fn(*args, **kwargs)`` by rank."""
        raise NotImplementedError

    def num_processes(self) -> int:
        """How many ranks there are."""
        raise NotImplementedError


class SparkBackend(Backend):
    """Ranks in tasks of Spark: ``options`` are those of :func:`xoe.spark.run`."""

    def __init__(self, num_proc: int | None = None, env: Mapping[str, str] | None = None, **options: Any) -> None:
        self._ranks = num_proc or default_num_proc()
        self._env = dict(env or {})
        self._options = options

    def run(
        self,
        fn: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> list[Any]:
        """As :meth:`Backend.run`."""
        return run(fn, args, kwargs, self._ranks, env={**self._env, **(env or {})}, **self._options)

    def num_processes(self) -> int:
        """As :meth:`Backend.num_processes`."""
        return self._ranks
