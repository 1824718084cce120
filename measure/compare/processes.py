"""The processes that a measurement starts, and what they print."""

import json
import os
import socket
import subprocess
import sys


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
    """Ends this program if the process failed. shown: so many characters of what it printed last, and of its errors."""
    if code != 0:
        last = "".join(text[-count:] for text, count in zip((out, err), shown, strict=True) if count)
        sys.exit(f"error: {' '.join(map(str, words))} ended with {code}:\n{last}")


def run(words, environment, limit):
    """What the process prints, which has `limit` seconds."""
    words = [str(word) for word in words]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=limit)
    need_success(words, done.returncode, done.stdout, done.stderr)
    return done.stdout


def start(words, environment):
    """A process, for outputs_of()."""
    words = [str(word) for word in words]
    return subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def outputs_of(processes, limit, shown):
    """What each of them prints; `shown` as in need_success()."""
    outputs = []
    for process in list(processes):
        out, err = process.communicate(timeout=limit)
        need_success(process.args, process.returncode, out, err, shown)
        outputs.append(out)
    return outputs
