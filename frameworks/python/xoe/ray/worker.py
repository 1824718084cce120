"""The actor that is a rank."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xoe import _placement
from xoe._attempt import Outcome, abandon, attempt

_reports: Any = None  # the queue of the call that runs here


def report(values: Any) -> None:
    """Passes ``values`` to the ``callbacks`` of the :meth:`Executor.run` that called this function. Only rank 0's are passed
    on."""
    if _reports is not None:
        _reports.put(values)


class Worker:
    """One rank."""

    def __init__(self) -> None:
        self._rank: int | None = None
        self._executable: Any = None

    def __repr__(self) -> str:
        """Ray puts it into its messages."""
        return "worker" if self._rank is None else f"rank {self._rank}"

    def describe(self) -> dict[str, Any]:
        """Where this worker is."""
        import ray
        import ray.util

        context = ray.get_runtime_context()
        return {
            "node": context.get_node_id(),
            "host": socket.gethostname(),
            "address": ray.util.get_node_ip_address(),
            "pid": os.getpid(),
            "gpus": [str(gpu) for gpu in ray.get_gpu_ids()],
        }

    def free_ports(self, count: int) -> list[int]:
        """Ports of this host."""
        return _placement.free_ports(count)

    def take_place(self, variables: Mapping[str, str]) -> None:
        """Becomes a rank of a new job. It joins in the first call that needs it."""
        _leave()
        _placement.set_variables(variables)
        self._rank = int(variables["XOE_RANK"])

    def make_executable(self, kind: Callable[..., Any] | None, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Makes the object that the functions of ``execute`` get."""
        self._executable = kind(*args, **kwargs) if kind else None

    def call(
        self,
        function: Callable[..., Any],
        args: Sequence[Any] | None,
        kwargs: Mapping[str, Any],
        join: float | None,
        reports: Any = None,
    ) -> Any:
        """Calls the function. args: None for the executable alone. join: joins the world before, within so many seconds."""
        global _reports
        try:
            if join is not None:
                from xoe.initialize import init

                init(start_timeout=join)
            _reports = reports
            return function(self._executable) if args is None else function(*args, **kwargs)
        except BaseException as error:
            abandon(error)
            raise
        finally:
            _reports = None

    def attempt(self, *call: Any) -> Outcome:
        """A call's result or exception."""
        return attempt(lambda: self.call(*call))

    def leave(self) -> None:
        """Leaves the world."""
        _leave()


def _leave() -> None:
    from xoe.initialize import shutdown

    shutdown()
