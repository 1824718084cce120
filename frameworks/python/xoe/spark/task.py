"""A task of Spark, in which a rank runs. Spark sends the functions of this module to its workers by name."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import ipaddress
import json
import os
import pickle
import secrets
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO, Any

from xoe._placement import Job, Place, free_ports, places, unique_names
from xoe.spark.reports import Reporter

_CONNECT_TIMEOUT = 30.0  # seconds


@dataclass(frozen=True)
class Assignment:
    """What the driver gives to each task."""

    name: str
    secret: str = field(repr=False)
    driver: str
    port: int
    call: bytes = field(repr=False)
    path: list[str] = field(repr=False)
    env: dict[str, str] = field(repr=False)
    executable: str | None
    start_timeout: float
    join: bool

    def secret_for(self, purpose: str) -> bytes:
        """A key of its own for each purpose."""
        return hmac.new(self.secret.encode(), purpose.encode(), hashlib.sha256).digest()


def run_rank(assignment: Assignment, rows: Iterator[Any]) -> Iterator[tuple[int, bytes]]:
    """Runs this task's rank until it ends. Yields its number and the pickled result, where it has one; all else the driver is
    told."""
    from pyspark import BarrierTaskContext

    del rows
    context = BarrierTaskContext.get()
    try:
        reporter = Reporter(assignment.driver, assignment.port, assignment.secret_for("reports"), _CONNECT_TIMEOUT)
    except OSError as error:
        raise ConnectionError(
            f"xoe.spark: this task, on {socket.gethostname()}, cannot reach the driver at"
            f" {assignment.driver}:{assignment.port}: {error};"
            " driver_address and driver_port of xoe.spark.run choose another address"
        ) from None
    with contextlib.closing(reporter):
        reporter.send("begun", index=context.partitionId(), host=socket.gethostname(), pid=os.getpid())
        job, place, host = _meet(context, assignment, reporter.own_address)
        variables = {**_gpus(context), **assignment.env, **job.variables(place, host)}
        rank = _Rank(assignment, place, host, variables, reporter)
        result = rank.wait()
    if result is not None:
        yield place.rank, result


def _identity() -> str:
    """Processes with the same one can share memory."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        boot = file.read().strip()
    spaces = [os.readlink(f"/proc/self/ns/{kind}") for kind in ("net", "pid", "ipc")]
    return " ".join([socket.gethostname(), boot, *spaces, str(os.geteuid())])


def _meet(context: Any, assignment: Assignment, address: str) -> tuple[Job, Place, str]:
    """The job of this attempt of the stage, this task's place in it, and the name of its host."""
    token = secrets.token_hex(8)  # partition 0's distinguishes the attempts
    mine = {"host": _identity(), "name": socket.gethostname(), "address": address, "ports": free_ports(2), "token": token}
    everyone = [json.loads(text) for text in context.allGather(json.dumps(mine))]
    hosts = [one["host"] for one in everyone]
    first = everyone[0]
    where = first["address"]
    if len(set(hosts)) > 1 and ipaddress.ip_address(where.partition("%")[0]).is_loopback:
        # Rank 0 runs beside the driver, and the others know its host by the name under which Spark does.
        where = socket.gethostbyname(context.getTaskInfos()[0].address.rpartition(":")[0])
    secret = assignment.secret_for(f"attempt {first['token']}").hex()
    job = Job(f"spark-{assignment.name}-{first['token']}", secret, where, first["ports"][0], first["ports"][1])
    index = context.partitionId()
    names = unique_names(dict(zip(hosts, (one["name"] for one in everyone), strict=True)))
    return job, places(hosts)[index], names[hosts[index]]


def _gpus(context: Any) -> dict[str, str]:
    """The GPUs that Spark gave to this task."""
    given = context.resources().get("gpu")
    return {"CUDA_VISIBLE_DEVICES": ",".join(given.addresses)} if given else {}


class _Rank:
    """A rank's process, whose output goes to the driver."""

    def __init__(self, assignment: Assignment, place: Place, host: str, variables: dict[str, str], reporter: Reporter) -> None:
        self._reporter = reporter
        readable, writable = os.pipe()
        command = [assignment.executable or sys.executable, "-m", "xoe.spark.rank", str(writable)]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "PYTHONUNBUFFERED": "1",
            **assignment.env,
        }
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                pass_fds=(writable,),
            )
        finally:
            os.close(writable)
        self._readable = os.fdopen(readable, "rb")
        reporter.send("rank", rank=place.rank, host=host, pid=self._process.pid)
        payload = {
            "parent": os.getpid(),
            "variables": variables,
            "path": [*sys.path, *assignment.path],
            "call": assignment.call,
            "join": assignment.join,
            "start_timeout": assignment.start_timeout,
        }
        assert self._process.stdin and self._process.stdout and self._process.stderr
        self._threads = [
            threading.Thread(target=self._pass_on, args=(self._process.stdout, "stdout"), daemon=True),
            threading.Thread(target=self._pass_on, args=(self._process.stderr, "stderr"), daemon=True),
        ]
        for thread in [*self._threads, threading.Thread(target=self._end_with_driver, daemon=True)]:
            thread.start()
        with contextlib.suppress(BrokenPipeError), self._process.stdin as stdin:  # where it has ended, its exit code tells why
            stdin.write(pickle.dumps(payload))

    def _pass_on(self, stream: IO[bytes], name: str) -> None:
        for line in stream:
            self._reporter.send("line", stream=name, text=line.decode(errors="replace"))

    def _end_with_driver(self) -> None:
        self._reporter.wait_for_end()
        self._process.kill()

    def wait(self) -> bytes | None:
        """Returns the pickled result, or None where the rank has failed."""
        with self._readable:
            outcome = self._readable.read()
        code = self._process.wait()
        for thread in self._threads:
            thread.join()
        if not outcome:
            why = f"it was ended by {signal.Signals(-code).name}" if code < 0 else f"its process ended with exit code {code}"
            self._reporter.send("lost", why=why)
            return None
        fine, value = pickle.loads(outcome)
        if fine:
            self._reporter.send("done")
            return bytes(value)
        self._reporter.send("failure", error=base64.b64encode(value[0]).decode(), trace=value[1])
        return None
