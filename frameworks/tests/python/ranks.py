"""Runs a script of tests on several ranks: `xoe run -np N python SCRIPT`, with PyTorch, or what use() names, from build/peers.

A script begins with `ranks.start(__file__, sizes=(1, 2, 3, 4))`, before it imports what only PyTorch's environment has: started by
itself it starts the ranks, for each size in turn, and ends; in a rank that returns. `ranks.call_tests(globals())` at its end calls
every function whose name begins with test_, in order. XOE_BUILD_DIR: the build to test. On the command line numbers choose sizes,
and words the tests whose names have one of them:

    optimizer_test.py 2 names clip
"""

import functools
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "core/testing"))
import cases
import peer_python

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("XOE_BUILD_DIR", ROOT / "build" / "release"))
_MARK = "XOE_TEST_RANK"
_CHOSEN = "XOE_TEST_CHOSEN"  # words that names of tests have one of, separated by commas
HANGS = 900  # seconds: a limit for what hangs, far beyond what it takes beside a load of 20
# For ranks that ignore SIGTERM, to say what they saw of another one's end: on a busy machine that takes longer than 5 s.
LET_SPEAK = ("--grace", "120")
IN_A_RANK = {_MARK: "1"}  # the environment in which start() returns


_peer = ("pytorch", "torch")


def use(environment, package):
    """From here on the Python of another environment, which has this package."""
    global _peer
    _peer = (environment, package)


def interpreter():
    """A Python with what the tests need; ends with "skipped" where there is none."""
    python = peer_python.peer_python(*_peer)
    if python is None:
        print(peer_python.why_no(*_peer))
        sys.exit(peer_python.SKIPPED)
    return python


def need(package):
    """Ends the test with "skipped" where PyTorch's environment lacks a package."""
    if peer_python.peer_python("pytorch", package) is None:
        print(peer_python.why_no("pytorch", package))
        sys.exit(peer_python.SKIPPED)


def environment(**more):
    """Of a process that imports xoe from the build."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("XOE_", "HOROVOD_"))}
    path = os.pathsep.join([str(BUILD / "python"), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**variables, "PYTHONPATH": path, "XOE_BUILD_DIR": str(BUILD), "PYTHONDONTWRITEBYTECODE": "1", **more}


def command(size, script, *arguments, options=()):
    """`xoe run` of a script on so many ranks."""
    return [str(BUILD / "bin" / "xoe"), "run", "-np", str(size), *options, interpreter(), str(script), *arguments]


def run(size, script, *arguments, options=(), timeout=HANGS, **variables):
    """Runs a script on so many ranks; gives the ended process, with its output and `seconds`."""
    started = time.monotonic()
    done = subprocess.run(
        command(size, script, *arguments, options=("--timeout", str(timeout), *options)),
        env=environment(**variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    done.seconds = time.monotonic() - started
    return done


def told_within(idle):
    """Seconds within which ranks must have been told: `idle` without other work, more by as much as others let them wait for a
    processor, as core/testing/told_within.h has it."""
    return idle * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


_made = []  # folders, which go with the process
_at_end = []  # called when all tests have passed


def folder_for_all(rank, broadcast, barrier):
    """A folder that rank 0 makes, and removes when all ranks have ended their tests; broadcast(object) gives all rank 0's."""
    _at_end.append(barrier)
    if rank == 0:
        _made.append(tempfile.TemporaryDirectory(prefix="xoe-ranks-"))
    return broadcast(_made[-1].name if rank == 0 else None)


def free_port():
    """A port of this host that is free at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def gpus():
    """How many GPUs PyTorch can use here; the test is skipped where there are none."""
    if _MARK in os.environ:
        return 0
    found = 0
    if any(pathlib.Path("/dev").glob("nvidia[0-9]*")):
        count = [interpreter(), "-c", "import torch; print(torch.cuda.device_count())"]
        found = int(subprocess.run(count, env=environment(), stdout=subprocess.PIPE, text=True, check=True).stdout)
    if found == 0:
        print("skipped: no GPU, or a PyTorch without CUDA")
        sys.exit(peer_python.SKIPPED)
    return found


def start(script, sizes=(1, 2, 3, 4), timeout=HANGS, **variables):
    """Runs the script on ranks, unless this is one of them: of these sizes, or of those that the command line has."""
    if _MARK in os.environ:
        return
    failed = []
    chosen = ",".join(word for word in sys.argv[1:] if not word.isdigit())
    for size in [int(word) for word in sys.argv[1:] if word.isdigit()] or sizes:
        done = run(size, script, timeout=timeout, **IN_A_RANK, **{_CHOSEN: chosen}, **variables)
        print(
            f"{pathlib.Path(script).name} on {size} ranks: exit code {done.returncode} after {done.seconds:.1f} s", flush=True
        )
        if done.returncode != 0:
            print(done.stdout)
            failed.append(size)
    sys.exit(f"failed on {failed} ranks" if failed else 0)


def drive(namespace):
    """Calls the tests of a script that starts ranks itself, given its globals(), each with a folder of its own; ends the process."""

    def in_a_folder(test):
        with tempfile.TemporaryDirectory(prefix="xoe-test-") as folder:
            test(pathlib.Path(folder))

    tests = cases.chosen(cases.functions(namespace), sys.argv[1:])
    sys.exit(cases.run([(name, functools.partial(in_a_folder, test)) for name, test in tests]))


def call_tests(namespace):
    """Calls the tests of a script, given its globals(); the first that fails ends the process."""
    words = list(filter(None, os.environ.get(_CHOSEN, "").split(",")))
    if cases.run(cases.chosen(cases.functions(namespace), words), failfast=True) == 1:
        sys.stdout.flush()
        # At once: the other ranks are waiting for this one.
        os._exit(1)
    for call in _at_end:
        call()
