"""``xoe.ray.Executor`` by Horovod's names."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from horovod.ray.elastic import refuse
from xoe._placement import places
from xoe.ray import Executor


@dataclass
class MiniSettings:
    """What ``RayExecutor.create_settings`` gives. ssh is not used."""

    nics: Any = None
    verbose: int = 1
    key: str | None = None
    ssh_port: int | None = None
    ssh_identity_file: str | None = None
    timeout_s: int = 300
    placement_group_timeout_s: int = 100
    elastic: bool = False


class Coordinator:
    """Says which ranks are together on a node."""

    def __init__(self, settings: Any) -> None:
        self.settings = settings
        self.node_id_by_rank: dict[str, list[int]] = {}
        self._hostnames: set[str] = set()

    @property
    def world_size(self) -> int:
        """How many ranks are known."""
        return sum(map(len, self.node_id_by_rank.values()))

    @property
    def hostnames(self) -> set[str]:
        """The names of their hosts."""
        return self._hostnames

    @property
    def node_id_string(self) -> str:
        """Nodes with their numbers of ranks."""
        return ",".join(f"{node}:{len(ranks)}" for node, ranks in self.node_id_by_rank.items())

    def register(self, hostname: str, node_id: str, world_rank: int) -> None:
        """Adds a rank."""
        self._hostnames.add(hostname)
        self.node_id_by_rank.setdefault(node_id, []).append(world_rank)

    def finalize_registration(self) -> dict[int, dict[str, int]]:
        """Horovod's variables of each rank."""
        order = [(node, rank) for node, ranks in self.node_id_by_rank.items() for rank in ranks]
        return {
            rank: {
                "HOROVOD_CROSS_RANK": place.cross_rank,
                "HOROVOD_CROSS_SIZE": place.cross_size,
                "HOROVOD_LOCAL_RANK": place.local_rank,
                "HOROVOD_LOCAL_SIZE": place.local_size,
            }
            for (_, rank), place in zip(order, places([node for node, _ in order]), strict=True)
        }


class RayExecutor:
    """Ranks as actors of Ray; see ``xoe.ray.Executor``. As in Horovod, each rank sees the GPUs of all ranks on its host, and
    the functions call ``hvd.init()``."""

    @classmethod
    def create_settings(
        cls,
        timeout_s: int = 30,
        ssh_identity_file: str | None = None,
        ssh_str: str | None = None,
        placement_group_timeout_s: int = 100,
        nics: Any = None,
    ) -> MiniSettings:
        """Times to wait, and interfaces. ``ssh_identity_file`` and ``ssh_str`` have no effect: nothing is started with ssh."""
        del ssh_str
        return MiniSettings(
            nics=nics,
            ssh_identity_file=ssh_identity_file,
            timeout_s=timeout_s,
            placement_group_timeout_s=placement_group_timeout_s,
        )

    def __init__(
        self,
        settings: Any,
        num_workers: int | None = None,
        num_hosts: int | None = None,
        num_workers_per_host: int = 1,
        cpus_per_worker: int = 1,
        use_gpu: bool = False,
        gpus_per_worker: int | None = None,
        use_current_placement_group: bool = True,
        min_workers: int | None = None,
        max_workers: int | None = None,
        reset_limit: int | None = None,
        cooldown_range: Any = None,
        elastic_timeout: int = 600,
        override_discovery: bool = True,
    ) -> None:
        del reset_limit, cooldown_range, elastic_timeout, override_discovery
        if min_workers is not None or max_workers is not None:
            refuse("RayExecutor with min_workers or max_workers is not supported")
        if gpus_per_worker and not use_gpu:
            raise ValueError("gpus_per_worker is set, and use_gpu is False; set use_gpu=True, too")
        if use_gpu and gpus_per_worker is not None and gpus_per_worker < 1:
            raise ValueError(f"gpus_per_worker is {gpus_per_worker}; with use_gpu it is at least 1")
        self.settings = settings
        nics = settings.nics
        self._executor = Executor(
            num_workers,
            num_hosts=num_hosts,
            workers_per_host=num_workers_per_host or 1,
            cpus_per_worker=cpus_per_worker,
            gpus_per_worker=(gpus_per_worker or 1) if use_gpu else 0,
            use_current_placement_group=use_current_placement_group,
            placement_timeout=settings.placement_group_timeout_s,
            start_timeout=settings.timeout_s,
            network_interface=",".join(sorted(nics)) if nics else None,
            share_gpus=True,
            join=False,
        )

    @property
    def adapter(self) -> Any:
        """What of Horovod's inside programs look at: ``adapter.strategy._created_placement_group``."""
        return SimpleNamespace(strategy=SimpleNamespace(_created_placement_group=self._executor.created_placement_group))

    def start(
        self,
        executable_cls: Any = None,
        executable_args: Sequence[Any] | None = None,
        executable_kwargs: Mapping[str, Any] | None = None,
        extra_env_vars: Mapping[str, Any] | None = None,
    ) -> None:
        """Starts the ranks."""
        path = os.environ.get("PYTHONPATH")
        env = {"XOE_START_TIMEOUT": self.settings.timeout_s, **({"PYTHONPATH": path} if path else {}), **(extra_env_vars or {})}
        self._executor.start(executable_cls, executable_args, executable_kwargs, env)

    def execute(self, fn: Callable[[Any], Any], callbacks: Sequence[Callable[[Any], Any]] | None = None) -> list[Any]:
        """Calls ``fn`` with each rank's object of ``executable_cls``."""
        return self._executor.execute(fn, callbacks or ())

    def run(
        self,
        fn: Callable[..., Any],
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        callbacks: Sequence[Callable[[Any], Any]] | None = None,
    ) -> list[Any]:
        """Calls ``fn(*args, **kwargs)`` on every rank."""
        return self._executor.run(fn, args, kwargs, callbacks or ())

    def run_remote(
        self, fn: Callable[..., Any], args: Sequence[Any] | None = None, kwargs: Mapping[str, Any] | None = None
    ) -> list[Any]:
        """Starts that; returns a reference to each result."""
        return self._executor.run_remote(fn, args, kwargs)

    def execute_single(self, fn: Callable[[Any], Any]) -> Any:
        """Calls ``fn`` with rank 0's object, on rank 0."""
        return self._executor.execute_single(fn)

    def shutdown(self) -> None:
        """Ends the ranks."""
        self._executor.shutdown()
