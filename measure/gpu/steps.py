"""Runs the programs of the check: each in a session of its own, within a limit, and ended with all of its processes."""

import contextlib
import dataclasses
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import time
from collections.abc import Callable

SKIPPED = 77
GRACE = 3  # seconds between the polite and the other signal
LEAST = 3  # seconds: what gets less is not started


@dataclasses.dataclass(frozen=True)
class Step:
    """One program. Its figures are the JSON objects among the lines that it prints, later ones over earlier ones."""

    name: str
    command: list
    variables: dict = dataclasses.field(default_factory=dict)
    figures_of: Callable[[str], dict] = lambda output: {}  # more figures, of what it printed
    needs: str = ""  # a program, without which the step is skipped
    limit: float = 60  # seconds
    least: float = LEAST  # seconds: with less than this it is skipped
    timed: bool = False  # it measures time: nothing else may run
    again: bool = False  # a further round of a step, for its median: nothing is missing without it


def result(status, reason="", seconds=0.0, figures=None):
    return {"status": status, "reason": reason, "seconds": round(seconds, 1), "figures": figures or {}}


def figures_of(step, output):
    """The JSON objects that it printed, later ones over earlier ones, and what the step reads from its output."""
    figures = {}
    for line in output.splitlines():
        if line.startswith("{"):
            try:
                figures.update(json.loads(line))
            except ValueError:
                continue  # cut off, or of another program
    return figures | step.figures_of(output)


def last_line(output):
    """What most likely says why a program failed: the last error of Python, whose traceback others may follow, or the last line."""
    lines = [line.strip() for line in output.splitlines() if line.strip() and not line.startswith("{")]
    errors = [line for line in lines if re.match(r"[\w.]*(Error|Exception)\b", line)]
    return (errors or lines)[-1][:400] if lines else "it printed nothing"


def session_of(pid):
    """The processes of the session that this one began."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            # The name of the program, in brackets, may hold spaces: state, parent, group and session follow it.
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == pid and fields[0] != "Z":
                found.append(int(entry.name))
    return found


def signal_session(pid, number):
    """Sends a signal to every process of a session, and to those that they start meanwhile."""
    reached = set()
    while fresh := set(session_of(pid)) - reached:
        for one in fresh:
            with contextlib.suppress(ProcessLookupError):
                os.kill(one, number)
        reached |= fresh


def end(process, grace=GRACE):
    """Ends a process and its session: politely, then not."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(grace)
    signal_session(process.pid, signal.SIGKILL)
    process.wait()


def environment_of(variables):
    """This process's, without what was set for another run of Xoe."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("XOE_", "HOROVOD_"))}
    return kept | variables


def start(step, variables, log, folder):
    """The step's process; OSError where its program is missing."""
    log.write(f"\n==== {step.name}: {' '.join(map(str, step.command))}\n".encode())
    log.flush()
    return subprocess.Popen(
        list(map(str, step.command)), env=environment_of(variables | step.variables), stdin=subprocess.DEVNULL, stdout=log,
        stderr=subprocess.STDOUT, start_new_session=True, cwd=folder,
    )  # fmt: skip


def why_not(step, seconds):
    """Why a step cannot be run within so many seconds, if so."""
    if step.needs and not pathlib.Path(step.needs).exists():
        return f"no {pathlib.Path(step.needs).name}"
    if seconds < step.least:
        return f"too little time: {max(0, seconds):.0f} s left, {step.least:.0f} needed"
    return ""


def run(step, variables, seconds, log, folder="."):
    """What became of a step within so many seconds; `log` gets its output."""
    if reason := why_not(step, seconds):
        return result("skipped", reason)
    limit = min(step.limit, seconds)
    started = time.monotonic()
    try:
        process = start(step, variables, log, folder)
    except OSError as error:
        return result("failed", str(error))
    begin = log.tell()
    try:
        code = process.wait(limit)
        status = "passed" if code == 0 else "skipped" if code == SKIPPED else "failed"
    except subprocess.TimeoutExpired:
        status = "timed out"
    finally:
        if process.poll() is None:  # also when this check is ended
            end(process)
    output = pathlib.Path(log.name).read_bytes()[begin:].decode(errors="replace")
    log.seek(0, os.SEEK_END)
    reason = {"passed": "", "timed out": f"ended after {limit:.0f} s"}.get(status, last_line(output))
    return result(status, reason, time.monotonic() - started, figures_of(step, output))


def median_of(rounds):
    """The figures of several rounds of one step: of each number its median, of all else the newest."""
    figures = dict(rounds[-1])
    for name in figures:
        values = [one[name] for one in rounds if name in one]
        if all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values):
            figures[name] = statistics.median(values)
    if len(rounds) > 1:
        figures["rounds"] = len(rounds)
    return figures
