"""Runs a function on several ranks, from Python or a notebook."""

from __future__ import annotations

import base64
import os
import pickle
import re
import secrets
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any

from xoe._call_variables import write_call
from xoe._command import program
from xoe.errors import HorovodInternalError, XoeError

_END_TIMEOUT = 30.0  # seconds for an interrupted job to end


class RankError(XoeError):
    """The function failed on a rank, and its exception could not be pickled; the message has its traceback."""


class _RemoteTraceback(Exception):
    """The cause of an exception that was raised on a rank."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def run(
    func: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    num_proc: int | None = None,
    *,
    np: int | None = None,
    min_num_proc: int | None = None,
    max_num_proc: int | None = None,
    slots: int | None = None,
    reset_limit: int | None = None,
    cooldown_range: tuple[float, float] | None = None,
    hosts: str | None = None,
    hostfile: str | None = None,
    host_discovery_script: str | None = None,
    start_timeout: float | None = None,
    ssh_port: int | None = None,
    ssh_identity_file: str | None = None,
    network_interfaces: str | None = None,
    output_filename: str | None = None,
    executable: str | None = None,
    env: Mapping[str, str] | None = None,
    options: Sequence[str] = (),
    verbose: Any = None,
    use_gloo: bool | None = None,
    use_mpi: bool | None = None,
    disable_cache: bool | None = None,
    initialize: bool = True,
) -> list[Any]:
    """Calls ``func(*args, **kwargs)`` on ``num_proc`` ranks; returns their results by rank.

    Each rank is a new process (``executable``, default this Python). The function and its results are pickled with
    cloudpickle, and its output appears here. ``init()`` is called before the function, unless ``initialize`` is False: then the
    function calls it, as those for Horovod do. ``hosts`` ("a:4,b:4"), ``hostfile``,
    ``start_timeout`` (s), ``ssh_port``, ``ssh_identity_file``, ``network_interfaces``, ``output_filename`` and ``options``
    are those of `xoe run`; ``np`` is another name for ``num_proc``; verbose, use_gloo, use_mpi and disable_cache are ignored.

    ``min_num_proc``, ``max_num_proc``, ``host_discovery_script``, ``slots`` (of a host), ``reset_limit`` and ``cooldown_range``
    (s) let ranks and hosts come and go, as `xoe run --min-np ... --max-np ...` does: ``func`` is then one that trains with
    ``elastic.run``, and the results are those of the ranks that there are at its end. Function and arguments may have 1 MiB.

    An exception on a rank is raised here, with its traceback as cause. When several ranks fail, it is the first one that did
    not fail because of another rank.
    """
    del verbose, use_gloo, use_mpi, disable_cache
    import cloudpickle

    token = secrets.token_hex(16)
    call = cloudpickle.dumps((func, tuple(args), dict(kwargs or {})))
    payload = pickle.dumps({"token": token, "path": sys.path, "call": call, "initialize": initialize})
    command = [str(program()), "run"]
    ranks = np if num_proc is None else num_proc
    elastic = min_num_proc is not None or max_num_proc is not None or host_discovery_script is not None
    for name, value in (
        ("-np", ranks if hosts or hostfile or host_discovery_script else ranks or 1),
        ("--min-np", min_num_proc),
        ("--max-np", max_num_proc),
        ("-H", hosts),
        ("--hostfile", hostfile),
        ("--host-discovery-script", host_discovery_script),
        ("--slots-per-host", slots),
        ("--reset-limit", reset_limit),
        ("--start-timeout", start_timeout),
        ("--ssh-port", ssh_port),
        ("--ssh-identity-file", ssh_identity_file),
        ("--network-interface", network_interfaces),
        ("--output-dir", output_filename),
    ):
        if value is not None:
            command += [name, str(value)]
    if cooldown_range is not None:
        command += ["--blacklist-cooldown-range", *(f"{seconds:g}" for seconds in cooldown_range)]
    given = {**(env or {}), **(write_call(payload) if elastic else {})}
    # Not on the command line, which all users of the host can read.
    with os.fdopen(os.memfd_create("xoe-env"), "wb") as variables:
        if given:
            variables.write(b"".join(os.fsencode(f"{name}={text}") + b"\0" for name, text in given.items()))
            variables.flush()
            command += ["--env-file", f"/proc/self/fd/{variables.fileno()}"]
        command += [*options, executable or sys.executable, "-m", "xoe._worker"]
        return _Job(command, b"" if elastic else payload, token, variables.fileno()).results()


class _Job:
    """A running `xoe run`, whose output is forwarded line by line."""

    def __init__(self, command: list[str], payload: bytes, token: str, passed: int) -> None:
        self._mark = f"xoe-{token}:"
        self._found: list[Any] | None = None
        self._failures: list[tuple[int, BaseException | None, str]] = []
        self._stderr_tail: list[str] = []
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=(passed,)
        )
        assert self._process.stdin and self._process.stdout and self._process.stderr
        self._threads = [
            threading.Thread(target=self._feed, args=(self._process.stdin, payload), daemon=True),
            threading.Thread(target=self._pass_on, args=(self._process.stdout, sys.stdout), daemon=True),
            threading.Thread(target=self._pass_on, args=(self._process.stderr, sys.stderr), daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    @staticmethod
    def _feed(stdin: IO[bytes], payload: bytes) -> None:
        try:
            with stdin:
                stdin.write(payload)
        except BrokenPipeError:
            pass  # the job has ended already: its exit code tells why

    def _pass_on(self, stream: IO[bytes], to: Any) -> None:
        with stream:
            for raw in stream:
                self._pass_on_line(raw.decode(errors="replace"), to)

    def _pass_on_line(self, line: str, to: Any) -> None:
        before, mark, rest = line.partition(self._mark)
        if mark:
            self._take(rest.strip())
            # Output before the mark on the same line, after the rank's tag.
            line = f"{before}\n" if re.sub(r"^\[\d+\] ", "", before) else ""
        if line:
            to.write(line)
            to.flush()
            if to is sys.stderr:
                self._stderr_tail = [*self._stderr_tail, line][-10:]

    def _take(self, text: str) -> None:
        kind, _, data = text.partition(":")
        value = pickle.loads(base64.b64decode(data))
        if kind == "results":
            self._found = value
        else:
            rank, pickled, trace = value
            try:
                error = pickle.loads(pickled)
            except Exception:
                error = None
            self._failures.append((rank, error, trace))

    def results(self) -> list[Any]:
        try:
            code = self._process.wait()
        except BaseException:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(_END_TIMEOUT)
            except subprocess.TimeoutExpired:
                self._process.kill()
            raise
        for thread in self._threads:
            thread.join()
        if code == 0 and self._found is not None:
            return self._found
        if self._failures:
            raise first_of(self._failures)
        raise RankError(f"the job ended with exit code {code}: {''.join(self._stderr_tail).strip() or 'no output'}")


def first_of(failures: Sequence[tuple[int, BaseException | None, str]]) -> BaseException:
    """The exception to raise for failures, at least one: of the first that did not come from another rank. A failure is (rank,
    exception, traceback), with None for an exception that could not be pickled."""
    own = [failure for failure in failures if not isinstance(failure[1], HorovodInternalError)]
    rank, error, trace = (own or failures)[0]
    if error is None:
        return RankError(f"rank {rank} failed:\n{trace}")
    error.__cause__ = _RemoteTraceback(f"on rank {rank}:\n{trace}")
    return error
