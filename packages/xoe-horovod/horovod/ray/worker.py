"""Horovod's worker, for programs that make actors of it themselves."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any


class BaseHorovodWorker:
    """An object that a Ray actor may be made of. ``RayExecutor`` has workers of its own."""

    executable: Any = None

    def __init__(self, world_rank: int = 0, world_size: int = 1) -> None:
        os.environ["HOROVOD_RANK"] = str(world_rank)
        os.environ["HOROVOD_SIZE"] = str(world_size)

    def node_id(self) -> str:
        """Ray's name for this node."""
        import ray

        return str(ray.get_runtime_context().get_node_id())

    def hostname(self) -> str:
        """This host's name."""
        return socket.gethostname()

    def get_gpu_ids(self) -> list[Any]:
        """The GPUs that Ray gave to this worker."""
        import ray

        return list(ray.get_gpu_ids())

    def update_env_vars(self, env_vars: Mapping[str, Any]) -> None:
        """Sets environment variables."""
        os.environ.update({name: str(value) for name, value in env_vars.items()})

    def env_vars(self) -> dict[str, str]:
        """The environment."""
        return dict(os.environ)

    def start_executable(
        self,
        executable_cls: Callable[..., Any] | None = None,
        executable_args: Sequence[Any] | None = None,
        executable_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        """Makes the object that ``execute`` passes to functions."""
        if executable_cls:
            self.executable = executable_cls(*(executable_args or []), **(executable_kwargs or {}))

    def execute(self, func: Callable[[Any], Any]) -> Any:
        """Calls a function with that object."""
        return func(self.executable)
