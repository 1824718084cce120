"""Starts ranks as actors of Ray, calls functions on them, and says which one was lost."""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType, TracebackType
from typing import Any

from xoe._attempt import unpickled
from xoe._placement import Job, Place, new_secret, places, unique_names
from xoe.errors import InvalidArgumentError, PeerLostError, UnavailableError
from xoe.ray.worker import Worker
from xoe.runner import first_of

_GRACE = 10.0  # seconds for the other ranks to end once one was lost
_LEAVE_TIMEOUT = 5.0  # seconds to leave the world before the actors are ended
_POLL = 0.1  # seconds between two looks at the queue of reports


def _import_ray() -> ModuleType:
    try:
        import ray
    except ModuleNotFoundError as error:
        if error.name != "ray":
            raise
        raise UnavailableError("xoe.ray needs Ray, which this Python lacks; install it with: pip install ray") from None
    import ray.exceptions
    import ray.util
    import ray.util.scheduling_strategies

    return ray


def run(
    fn: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    num_workers: int | None = None,
    **options: Any,
) -> list[Any]:
    """Calls ``fn(*args, **kwargs)`` on ``num_workers`` ranks, each an actor of Ray; returns their results by rank.

    ``options`` are those of :class:`Executor`, such as ``cpus_per_worker`` and ``gpus_per_worker``. ``init()`` is called before
    the function. An exception on a rank is raised here with its traceback as cause; when several ranks fail, it is the first
    that did not fail because of another rank. A rank whose actor dies is named by a PeerLostError. The actors end before this
    returns.
    """
    with Executor(num_workers, **options) as executor:
        executor.start()
        return executor.run(fn, args, kwargs)


class Executor:
    """Ranks that stay for several calls.

    num_workers: how many ranks. Or ``num_hosts`` and ``workers_per_host``: as many on each of so many hosts.
    cpus_per_worker, gpus_per_worker, resources: what each rank reserves in Ray. Ray sets CUDA_VISIBLE_DEVICES to the GPUs of
        each rank, so that a rank's GPU is the first one that it sees. With ``share_gpus`` each rank sees those of all ranks on
        its host, for programs that choose one by ``local_rank()``.
    placement: the placement group's strategy: PACK (few hosts), SPREAD, STRICT_PACK or STRICT_SPREAD.
    use_current_placement_group: inside a placement group, place the ranks in it instead of in a new one.
    placement_timeout: seconds for Ray to find room for all ranks; start_timeout: seconds for the ranks to join each other.
    network_interface: as that of `xoe run`, of each host.
    env: variables for the ranks. join: call ``init()`` before each function; else the functions do.

    Use it as a context manager, or call :meth:`shutdown`. One thread may call it at a time.
    """

    def __init__(
        self,
        num_workers: int | None = None,
        *,
        num_hosts: int | None = None,
        workers_per_host: int = 1,
        cpus_per_worker: float = 1,
        gpus_per_worker: float = 0,
        resources: Mapping[str, float] | None = None,
        placement: str = "PACK",
        use_current_placement_group: bool = True,
        placement_timeout: float = 100,
        start_timeout: float = 60,
        network_interface: str | None = None,
        env: Mapping[str, str] | None = None,
        share_gpus: bool = False,
        join: bool = True,
    ) -> None:
        if (num_workers is None) == (num_hosts is None):
            raise InvalidArgumentError("xoe.ray: pass either num_workers, or num_hosts and workers_per_host")
        for name, value in (("num_workers", num_workers), ("num_hosts", num_hosts), ("workers_per_host", workers_per_host)):
            if value is not None and value < 1:
                raise InvalidArgumentError(f"xoe.ray: {name} is {value}; at least 1 is needed")
        self._by_host = num_hosts is not None
        self._hosts = num_hosts or 1
        self._per_host = workers_per_host if num_hosts is not None else 1
        self._size = num_workers if num_workers is not None else self._hosts * workers_per_host
        self._needs = {"CPU": cpus_per_worker, "GPU": gpus_per_worker, **(resources or {})}
        self._placement = placement
        self._inherit = use_current_placement_group
        self._placement_timeout = placement_timeout
        self._start_timeout = start_timeout
        self._env = {name: str(value) for name, value in (env or {}).items()}
        if network_interface is not None:
            self._env["XOE_INTERFACE"] = network_interface
        self._share_gpus = share_gpus
        self._join = start_timeout if join else None
        self._workers: list[Any] = []  # by rank
        self._facts: list[dict[str, Any]] = []
        self._places: list[Place] = []
        self._group: Any = None  # a placement group of our own
        self._failed = False  # the world is broken: the next call makes another one
        self._lost: str | None = None

    def __enter__(self) -> Executor:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.shutdown()

    @property
    def num_workers(self) -> int:
        """How many ranks there are."""
        return self._size

    @property
    def created_placement_group(self) -> bool:
        """Whether the ranks are in a placement group that :meth:`start` made."""
        return self._group is not None

    def start(
        self,
        executable_cls: Callable[..., Any] | None = None,
        executable_args: Sequence[Any] | None = None,
        executable_kwargs: Mapping[str, Any] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        """Starts the ranks. With ``executable_cls`` each makes an object of it, which the functions of :meth:`execute` get.

        Raises TimeoutError where Ray has no room for them within the time.
        """
        if self._workers:
            raise InvalidArgumentError("xoe.ray: the executor runs already; call shutdown() before start()")
        self._env |= {name: str(value) for name, value in (env or {}).items()}
        self._lost = None
        ray = _import_ray()
        try:
            self._start_actors(ray)
            self._form_job(ray)
            self._make_executables(ray, executable_cls, executable_args or (), executable_kwargs or {})
        except BaseException:
            self.shutdown()
            raise

    def _start_actors(self, ray: ModuleType) -> None:
        bundles = self._reserve(ray)
        try:
            facts = self._describe_actors(ray, bundles)
        except ray.exceptions.RayActorError as error:
            raise UnavailableError(f"xoe.ray: {self._wants()} did not start: {_reason(error)}") from None
        actors = self._workers
        self._places = places([fact["node"] for fact in facts])
        order = sorted(range(self._size), key=lambda index: self._places[index].rank)
        self._workers, self._facts = [actors[index] for index in order], [facts[index] for index in order]
        self._places = [self._places[index] for index in order]

    def _describe_actors(self, ray: ModuleType, bundles: Sequence[tuple[Any, int]]) -> list[dict[str, Any]]:
        """Starts the actors; says where each is."""
        kind = ray.remote(Worker)
        more = {name: amount for name, amount in self._needs.items() if name not in ("CPU", "GPU")}
        self._workers = [
            kind.options(
                num_cpus=self._needs["CPU"],
                num_gpus=self._needs["GPU"],
                resources=more or None,
                scheduling_strategy=ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy(group, bundle),
            ).remote()
            for group, bundle in bundles
        ]
        try:
            return list(ray.get([actor.describe.remote() for actor in self._workers], timeout=self._placement_timeout))
        except ray.exceptions.GetTimeoutError:
            raise TimeoutError(f"xoe.ray: {self._wants()} did not start within {self._placement_timeout:g} s") from None

    def _wants(self) -> str:
        needs = ", ".join(f"{amount:g} {name}" for name, amount in self._needs.items() if amount)
        where = f" on {self._hosts} hosts" if self._by_host else ""
        return f"{self._size} workers{where} with {needs or 'no resources'} each"

    def _reserve(self, ray: ModuleType) -> list[tuple[Any, int]]:
        """The placement group and the bundle of each worker."""
        current = ray.util.get_current_placement_group() if self._inherit else None
        if current is not None:
            return [(current, -1)] * self._size
        count, each = (self._hosts, self._per_host) if self._by_host else (self._size, 1)
        bundle = {name: amount * each for name, amount in self._needs.items() if amount}
        strategy = "STRICT_SPREAD" if self._by_host and count > 1 else self._placement
        self._group = ray.util.placement_group([bundle or {"CPU": 0.001}] * count, strategy=strategy)
        if not ray.wait([self._group.ready()], timeout=self._placement_timeout)[0]:
            there = sorted(ray.cluster_resources().items())
            free = ", ".join(f"{amount:g} {name}" for name, amount in there if ":" not in name)
            raise TimeoutError(
                f"xoe.ray: Ray found no room for {self._wants()} ({strategy}) within {self._placement_timeout:g} s; the cluster"
                f" has {free}; ask for less, add nodes, or end what uses them"
            )
        return [(self._group, index // each) for index in range(self._size)]

    def _form_job(self, ray: ModuleType) -> None:
        """Tells the ranks of their place in a job of a new name, with a new secret."""
        port, torch_port = ray.get(self._workers[0].free_ports.remote(2))
        job = Job(f"ray-{secrets.token_hex(8)}", new_secret(), self._facts[0]["address"], port, torch_port)
        names = unique_names({fact["node"]: fact["host"] for fact in self._facts})
        gpus: dict[str, list[str]] = {}
        for fact in self._facts:
            gpus[fact["node"]] = gpus.get(fact["node"], []) + [
                gpu for gpu in fact["gpus"] if gpu not in gpus.get(fact["node"], [])
            ]
        placed = []
        for worker, fact, place in zip(self._workers, self._facts, self._places, strict=True):
            fact["name"] = names[fact["node"]]
            visible = {"CUDA_VISIBLE_DEVICES": ",".join(gpus[fact["node"]])} if self._share_gpus and fact["gpus"] else {}
            placed.append(worker.take_place.remote({**visible, **self._env, **job.variables(place, fact["name"])}))
        self._gather(ray, placed, raw=True)
        self._failed = False

    def _make_executables(self, ray: ModuleType, kind: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        def make(executable: Any) -> None:
            del executable

        if kind is None:
            return
        if self._join is not None:
            self._attempt(ray, make, None, {})  # joins
        self._gather(ray, [worker.make_executable.remote(kind, list(args), dict(kwargs)) for worker in self._workers], raw=True)

    def run(
        self,
        fn: Callable[..., Any],
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        callbacks: Sequence[Callable[[Any], Any]] = (),
    ) -> list[Any]:
        """Calls ``fn(*args, **kwargs)`` on every rank; returns the results by rank. Errors: see :func:`run`.

        callbacks: each is called here with what rank 0 passes to :func:`xoe.ray.report`, in a thread of their own.
        """
        return self._attempt(self._ready(), fn, list(args or ()), dict(kwargs or {}), callbacks)

    def execute(self, fn: Callable[[Any], Any], callbacks: Sequence[Callable[[Any], Any]] = ()) -> list[Any]:
        """As :meth:`run`; ``fn`` gets each rank's object of ``executable_cls``, or None."""
        return self._attempt(self._ready(), fn, None, {}, callbacks)

    def execute_single(self, fn: Callable[[Any], Any]) -> Any:
        """Calls ``fn`` with rank 0's object, on rank 0 alone, which must not wait for others; returns the result."""
        ray = self._ready()
        return self._gather(ray, [self._workers[0].attempt.remote(fn, None, {}, None)])[0]

    def run_remote(
        self, fn: Callable[..., Any], args: Sequence[Any] | None = None, kwargs: Mapping[str, Any] | None = None
    ) -> list[Any]:
        """Starts ``fn(*args, **kwargs)`` on every rank; returns a reference to each result at once, for ``ray.get``."""
        self._ready()
        return [worker.call.remote(fn, list(args or ()), dict(kwargs or {}), self._join) for worker in self._workers]

    def _ready(self) -> ModuleType:
        if self._lost is not None:
            raise PeerLostError(f"{self._lost}; call shutdown() and start() for new ranks")
        if not self._workers:
            raise InvalidArgumentError("xoe.ray: the executor does not run; call start()")
        ray = _import_ray()
        if self._failed:
            self._form_job(ray)
        return ray

    def _attempt(
        self, ray: ModuleType, fn: Callable[..., Any], args: Any, kwargs: Any, callbacks: Sequence[Callable[[Any], Any]] = ()
    ) -> list[Any]:
        with _forwarded(callbacks) as queue:
            calls = [
                worker.attempt.remote(fn, args, kwargs, self._join, queue if rank == 0 else None)
                for rank, worker in enumerate(self._workers)
            ]
            return self._gather(ray, calls)

    def _gather(self, ray: ModuleType, calls: Sequence[Any], raw: bool = False) -> list[Any]:
        """Waits for a call of each rank; once one has failed, for the others only a while. raw: the calls give results as they
        are."""
        waiting = {call: rank for rank, call in enumerate(calls)}
        results: dict[int, Any] = {}
        failures: list[tuple[int, BaseException | None, str]] = []
        lost: dict[int, str] = {}
        deadline: float | None = None
        while waiting:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            done, _ = ray.wait(list(waiting), num_returns=1, timeout=left)
            if not done:
                break
            rank = waiting.pop(done[0])
            try:
                value = ray.get(done[0])
                if raw or value[0]:
                    results[rank] = value if raw else value[1]
                else:
                    failures.append((rank, unpickled(value[1][0]), value[1][1]))
            except ray.exceptions.RayTaskError as error:
                failures.append((rank, error.cause if isinstance(error.cause, BaseException) else None, str(error)))
            except ray.exceptions.RayError as error:
                lost[rank] = _reason(error)
            if deadline is None and (failures or lost):
                deadline = time.monotonic() + _GRACE
        if not (failures or lost):
            return [results[rank] for rank in range(len(calls))]
        self._failed = True
        if waiting or lost:
            self._end_of_ranks(ray, lost, sorted(waiting.values()))
        if lost:
            raise PeerLostError(self._lost)
        raise first_of(failures)

    def _end_of_ranks(self, ray: ModuleType, lost: Mapping[int, str], busy: Sequence[int]) -> None:
        """Ends the actors: a rank is gone, or one does not end."""
        text = "; ".join(f"rank {rank} ({self._where(rank)}) was lost: {why}" for rank, why in sorted(lost.items()))
        if busy:
            ended = ", ".join(f"rank {rank} ({self._where(rank)})" for rank in busy)
            text += f"{'; ' if text else ''}{ended} did not end within {_GRACE:g} s and was killed"
        self._lost = text
        self._kill(ray)

    def _kill(self, ray: ModuleType) -> None:
        for worker in self._workers:
            with contextlib.suppress(Exception):
                ray.kill(worker)

    def _where(self, rank: int) -> str:
        fact = self._facts[rank] if rank < len(self._facts) else {}
        return f"host {fact.get('name', fact.get('host', 'unknown'))}, pid {fact.get('pid', 'unknown')}"

    def shutdown(self) -> None:
        """Ends the ranks, and gives their resources back. May be called again, and before :meth:`start`."""
        workers, group = self._workers, self._group
        self._workers, self._group, self._facts, self._places = [], None, [], []
        if not workers and group is None:
            return
        ray = _import_ray()
        if not ray.is_initialized():
            return  # Ray has ended, and the actors with it
        with contextlib.suppress(Exception):
            if self._lost is None:
                ray.wait([worker.leave.remote() for worker in workers], num_returns=len(workers), timeout=_LEAVE_TIMEOUT)
        for worker in workers:
            with contextlib.suppress(Exception):
                ray.kill(worker)
        if group is not None:
            ray.util.remove_placement_group(group)


def _reason(error: BaseException) -> str:
    """Ray's text in one line, without its advice."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    kept = [line for line in lines if not line.startswith(("class_name:", "actor_id:", "namespace:", "pid:", "ip:"))]
    text, _, _ = " ".join(kept).partition(" Some common causes include")
    return f"{type(error).__name__}: {text[:400] or 'no message'}"


@contextlib.contextmanager
def _forwarded(callbacks: Sequence[Callable[[Any], Any]]) -> Iterator[Any]:
    """Yields a queue whose values the callbacks get until the block ends, or None without callbacks."""
    if not callbacks:
        yield None
        return
    from ray.util.queue import Empty, Queue

    queue, ended = Queue(actor_options={"num_cpus": 0}), threading.Event()

    def forward() -> None:
        while True:
            last = ended.is_set()
            try:
                while True:
                    value = queue.get(block=False)
                    for callback in callbacks:
                        callback(value)
            except Empty:
                if last:
                    return
                ended.wait(_POLL)

    thread = threading.Thread(target=forward, name="xoe-ray-reports", daemon=True)
    thread.start()
    try:
        yield queue
    finally:
        ended.set()
        thread.join()
        queue.shutdown(force=True)
