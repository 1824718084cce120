"""Horovod's names of elastic jobs on Ray, which raise an error: Xoe has no such jobs."""

from __future__ import annotations

from typing import Any, NoReturn

from xoe.errors import UnsupportedError


def refuse(what: str) -> NoReturn:
    """Says what to use instead."""
    raise UnsupportedError(
        f"{what}: a job on Ray keeps its workers; use horovod.ray.RayExecutor (or xoe.ray.Executor) with num_workers, which"
        " names a worker that is lost, save checkpoints, and call start() again"
    )


class ElasticRayExecutor:
    """Refuses, and says what to use."""

    @classmethod
    def create_settings(cls, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuses."""
        refuse("ElasticRayExecutor is not supported")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        refuse("ElasticRayExecutor is not supported")
