"""Starts ranks in a barrier stage of Spark, and says which one was lost."""

from __future__ import annotations

import base64
import contextlib
import os
import pickle
import queue
import secrets
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from xoe._attempt import unpickled
from xoe._placement import new_secret
from xoe.errors import InvalidArgumentError, PeerLostError, UnavailableError
from xoe.runner import RankError, first_of
from xoe.spark.reports import Reports
from xoe.spark.task import Assignment, run_rank

_GRACE = 10.0  # seconds for the other ranks to end once one has failed or was lost
_CANCEL_TIMEOUT = 30.0  # seconds for Spark to end a job
_POLL = 0.2  # seconds between two looks at Spark's job


def _context() -> Any:
    """Spark's active context. Workers on this machine run in this process's Python unless PYSPARK_PYTHON names another."""
    try:
        from pyspark import SparkContext
    except ModuleNotFoundError as error:
        if error.name != "pyspark":
            raise
        raise UnavailableError(
            "xoe.spark needs PySpark, which this Python lacks; install it with: pip install pyspark pyarrow"
        ) from None
    context = SparkContext._active_spark_context
    if context is None:
        raise UnavailableError(
            "xoe.spark: there is no active SparkContext in this process; make a session with SparkSession.builder.getOrCreate()"
            " (Spark Connect has none)"
        )
    if context.master.startswith("local") and "PYSPARK_PYTHON" not in os.environ:
        context.pythonExec = sys.executable  # Spark's own choice is the first python3 of PATH
    return context


def default_num_proc() -> int:
    """As many ranks as Spark runs tasks at once."""
    return int(_context().defaultParallelism)


def run(
    fn: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    num_proc: int | None = None,
    *,
    start_timeout: float = 600,
    env: Mapping[str, str] | None = None,
    stdout: Any = None,
    stderr: Any = None,
    executable: str | None = None,
    retries: int = 0,
    network_interface: str | None = None,
    driver_address: str | None = None,
    driver_port: int = 0,
    join: bool = True,
) -> list[Any]:
    """Calls ``fn(*args, **kwargs)`` on ``num_proc`` ranks, each in a task of one barrier stage; returns their results by rank.

    num_proc: default: Spark's default parallelism. Each rank needs a slot of its own, all at the same time.
    start_timeout: seconds until all tasks must run, and for the ranks to join each other.
    env: variables for the ranks. executable: their Python, default that of Spark's workers.
    stdout, stderr: where the ranks' lines go, each after its rank's number; default this process's.
    retries: how often ``fn`` may start again from its beginning, in another job of Spark, after a rank was lost.
    network_interface: as that of `xoe run`, of each host.
    driver_address, driver_port: where tasks reach this process; default ``spark.driver.host`` and any port.
    join: call ``init()`` before the function; else it does.

    A rank is a process of its own, which its task starts: it ends with the task. An exception on a rank is raised here with its
    traceback as cause; when several fail, it is the first that did not fail because of another rank. A rank that is killed is
    named by a PeerLostError. Raises TimeoutError where Spark does not run all tasks in time.
    """
    import cloudpickle

    context = _context()
    ranks = default_num_proc() if num_proc is None else num_proc
    if ranks < 1:
        raise InvalidArgumentError(f"xoe.spark.run: num_proc is {ranks}; at least 1 is needed")
    variables = {name: str(value) for name, value in (env or {}).items()}
    if network_interface is not None:
        variables["XOE_INTERFACE"] = network_interface
    address = driver_address or context.getConf().get("spark.driver.host")
    bind = context.getConf().get("spark.driver.bindAddress", "") or ""
    call = cloudpickle.dumps((fn, tuple(args), dict(kwargs or {})))
    for attempt in range(retries + 1):
        assignment = Assignment(
            name=secrets.token_hex(8),
            secret=new_secret(),
            driver=address,
            port=driver_port,
            call=call,
            path=list(sys.path),
            env=variables,
            executable=executable,
            start_timeout=start_timeout,
            join=join,
        )
        try:
            return [
                pickle.loads(result)
                for result in _results(context, assignment, ranks, bind, stdout or sys.stdout, stderr or sys.stderr)
            ]
        except PeerLostError as error:
            if attempt == retries:
                raise
            print(f"xoe.spark.run: {error}; starting again ({attempt + 1} of {retries})", file=stderr or sys.stderr)
    raise AssertionError


def _results(context: Any, assignment: Assignment, ranks: int, bind: str, stdout: Any, stderr: Any) -> list[bytes]:
    with contextlib.closing(Reports(bind, assignment.port, assignment.secret_for("reports"))) as reports:
        job = _Job(context, replace(assignment, port=reports.port), ranks, reports, stdout, stderr)
        return job.results()


class _SparkJob(threading.Thread):
    """Spark's job, in a thread of its own."""

    def __init__(self, context: Any, assignment: Assignment, ranks: int) -> None:
        super().__init__(name="xoe-spark-job", daemon=True)
        self._context, self._assignment, self._ranks = context, assignment, ranks
        self.group = f"xoe-{assignment.name}"
        self.found: list[tuple[int, bytes]] | None = None
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self._context.setJobGroup(self.group, f"xoe.spark.run on {self._ranks} ranks", interruptOnCancel=True)
            stage = self._context.parallelize(range(self._ranks), self._ranks).barrier()
            self.found = stage.mapPartitions(partial(run_rank, self._assignment)).collect()
        except BaseException as error:
            self.error = error

    def cancel(self) -> None:
        """Ends the job."""
        self._context.cancelJobGroup(self.group)
        self.join(_CANCEL_TIMEOUT)


class _Job:
    """What is known of the ranks."""

    def __init__(self, context: Any, assignment: Assignment, ranks: int, reports: Reports, stdout: Any, stderr: Any) -> None:
        self._size = ranks
        self._timeout = assignment.start_timeout
        self._reports = reports
        self._streams = {"stdout": stdout, "stderr": stderr}
        self._spark = _SparkJob(context, assignment, ranks)
        self._tasks: dict[int, dict[str, Any]] = {}  # by connection
        self._failures: list[tuple[int, BaseException | None, str]] = []
        self._lost: dict[int, str] = {}
        self._first_failure: float | None = None

    def results(self) -> list[bytes]:
        """Of all ranks, pickled."""
        started = time.monotonic()
        self._spark.start()
        try:
            while self._spark.is_alive():
                self._take(_POLL)
                if len(self._tasks) < self._size and time.monotonic() - started > self._timeout:
                    raise TimeoutError(
                        f"xoe.spark.run: {len(self._tasks)} of {self._size} tasks run after {self._timeout:g} s"
                        " (start_timeout); each rank needs a slot of its own, all at once: give Spark"
                        f" {self._size} slots, or pass a smaller num_proc"
                    )
                if self._first_failure is not None and time.monotonic() - self._first_failure > _GRACE:
                    break  # a rank computes
        finally:
            if self._spark.is_alive():
                self._spark.cancel()
        for _ in range(self._reports.events.qsize()):
            self._take(0)
        if self._spark.found is not None and len(self._spark.found) == self._size:
            return [result for _, result in sorted(self._spark.found)]
        raise self._failure()

    def _take(self, timeout: float) -> None:
        with contextlib.suppress(queue.Empty):
            event = self._reports.events.get(timeout=timeout) if timeout else self._reports.events.get_nowait()
            link = event["link"]
            if event["kind"] == "begun":
                self._tasks[link] = event
            elif link in self._tasks:
                self._heard(event, self._tasks[link])

    def _heard(self, event: dict[str, Any], task: dict[str, Any]) -> None:
        kind = event["kind"]
        if kind == "rank":
            task |= {"rank": event["rank"], "host": event["host"], "rank_pid": event["pid"]}
        elif kind == "line":
            stream = self._streams[event["stream"]]
            stream.write(f"[{task['rank']}] {event['text']}" + ("" if event["text"].endswith("\n") else "\n"))
            stream.flush()
        elif kind == "failure":
            self._failures.append((task["rank"], unpickled(base64.b64decode(event["error"])), event["trace"]))
        elif kind == "lost":
            self._lose(task, event["why"])
        elif kind == "end" and not task.get("ended"):
            self._lose(task, f"its Spark task (pid {task['pid']}) ended without a word")
        if kind in ("failure", "lost", "done", "end"):
            task["ended"] = True
        if self._first_failure is None and (self._failures or self._lost):
            self._first_failure = time.monotonic()

    def _lose(self, task: dict[str, Any], why: str) -> None:
        rank = task.get("rank")
        who = (
            f"rank {rank} (host {task['host']}, pid {task['rank_pid']})"
            if rank is not None
            else f"a task on host {task['host']}"
        )
        self._lost.setdefault(task["index"], f"{who} was lost: {why}")

    def _failure(self) -> BaseException:
        """The exception to raise."""
        if self._lost:
            return PeerLostError("; ".join(self._lost[index] for index in sorted(self._lost)))
        if self._failures:
            return first_of(self._failures)
        return RankError(f"xoe.spark.run: Spark's job failed: {_text(self._spark.error)}")


def _text(error: BaseException | None) -> str:
    """What Spark says, without the trace of its own calls."""
    if error is None:
        return "it was cancelled"
    lines = [line for line in _lines(str(error)) if not line.startswith("at ")]
    advice = "; Xoe must be installed in the Python of Spark's workers, which PYSPARK_PYTHON names" * (
        "No module named 'xoe'" in str(error)
    )
    return " ".join(lines)[:2000] + advice


def _lines(text: str) -> Iterator[str]:
    return filter(None, (line.strip() for line in text.splitlines()))
