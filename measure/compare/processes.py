"""The processes that a measurement starts, and what they print."""

import contextlib
import json
import os
import signal
import socket
import subprocess


class GivenUp(SystemExit):
    """What gives no figure; the text says why. Where nothing catches it, the program ends with that text."""


def clean_environment(*others, **more):
    """This process's, without what was set for another run of Xoe, or begins with one of the others, and with more."""
    return {**{name: value for name, value in os.environ.items() if not name.startswith(("XOE_", *others))}, **more}


def free_ports(count):
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def json_lines(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def need_success(words, code, out, err, shown=(1000, 2000)):
    """Gives up if the process failed. shown: so many characters of what it printed last, and of its errors."""
    if code != 0:
        last = "".join(text[-count:] for text, count in zip((out, err), shown, strict=True) if count)
        raise GivenUp(f"error: {' '.join(map(str, words))} ended with {code}:\n{last}")


def run(words, environment, limit):
    """What the process prints, which has `limit` seconds."""
    return outputs_of([start(words, environment)], limit)[0]


def start(words, environment):
    """A process, for outputs_of(). environment: None for this process's."""
    words = [str(word) for word in words]
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    try:
        return subprocess.Popen(words, env=environment, **pipes, text=True, start_new_session=True)
    except OSError as error:
        raise GivenUp(f"error: cannot start: {error}") from error


def outputs_of(processes, limit, shown=(1000, 2000)):
    """What each of them prints; `shown` as in need_success(). Once one has failed, or is late, all are ended."""
    processes, outputs = list(processes), []
    try:
        for process in processes:
            out, err = process.communicate(timeout=limit)
            need_success(process.args, process.returncode, out, err, shown)
            outputs.append(out)
    except subprocess.TimeoutExpired:
        raise GivenUp(f"error: {' '.join(process.args)}: no answer within {limit:g} s") from None
    finally:
        for process in processes:
            end(process)
    return outputs


def end(process):
    """Ends it, if it still runs, with all that it started in its session, and closes its pipes."""
    for which in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(process.pid, which)
                process.wait(timeout=10)
    process.stdout.close()
    process.stderr.close()
