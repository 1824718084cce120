"""Ranks end in ten ways, on one host and on three that this one plays: each time the job ends, the launcher names the rank that
ended first, or says that it is one of several, with that rank's exit code, and nothing is left.

    kill_rounds_test.py [ROUNDS [FIRST_SEED]]
"""

import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import uuid

import ranks

PROGRAM = """
    import atexit, json, os, signal, sys, time
    plan = json.loads(sys.argv[1])
    sys.path.insert(0, plan["python"])
    import xoe
    from xoe.objects import allgather_object

    def end(way):
        if way.startswith("SIG"):
            os.kill(os.getpid(), getattr(signal, way))
        elif way == "_exit":
            os._exit(7)
        elif way == "exception":
            raise ValueError("the learning rate is negative")
        elif way == "killed from outside":
            print("end process", os.getpid(), flush=True)
            time.sleep(60)
        else:
            atexit.register(time.sleep, plan["slow"])
            if way == "shutdown":
                xoe.shutdown()
            sys.exit(3)

    xoe.init()
    rank = xoe.rank()
    try:
        for step in range(1000000):
            if rank == plan["rank"] and step == plan["step"]:
                end(plan["way"])
            allgather_object(step)
    except xoe.PeerLostError:
        answer = plan["answers"][rank]
        if answer == "raise":
            raise
        elif answer == "abort":
            os.abort()
        elif answer == "_exit":
            os._exit(5)
        elif answer == "late":
            time.sleep(0.3)
        sys.exit(4)
"""
# What ends one of the ranks, and the exit code of the job.
WAYS = {
    "SIGKILL": 128 + signal.SIGKILL,
    "SIGSEGV": 128 + signal.SIGSEGV,
    "SIGBUS": 128 + signal.SIGBUS,
    "SIGABRT": 128 + signal.SIGABRT,
    "SIGTERM": 128 + signal.SIGTERM,
    "_exit": 7,
    "exception": 1,
    "exit": 3,
    "shutdown": 3,
    "killed from outside": 128 + signal.SIGKILL,
}
ANSWERS = ("raise", "abort", "_exit", "exit", "late")
SSH = """#!/bin/sh
while [ $# -gt 2 ]; do shift; done
exec env -i PATH="$PATH" XOE_TEST_MARK="$XOE_TEST_MARK" sh -c "$2"
"""
SIZE = 4


def processes(mark):
    """Those that have this mark in their environment."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
        except OSError:
            pass  # it has ended, or is another user's
    return found


def segments():
    return {path.name for path in pathlib.Path("/dev/shm").glob("xoe*") if not path.name.startswith("xoe-test-")}


def run_round(folder, number, seed):
    """What was wrong, empty: nothing; and whether the launcher said that it does not know who came first."""
    dice = random.Random(seed)
    way = list(WAYS)[number % len(WAYS)]
    hosts = number // len(WAYS) % 2 == 1
    plan = {
        "python": str(ranks.BUILD / "python"),
        "way": way,
        "rank": dice.randrange(SIZE),
        "step": dice.choice((0, 1, 7, 100)),
        "slow": dice.choice((0.0, 0.2, 1.0)),
        "answers": [dice.choice(ANSWERS) for _ in range(SIZE)],
    }
    mark = uuid.uuid4().hex
    place = ["-H", "one:2,two:1,three:1", "--ssh-command", str(folder / "ssh")] if hosts else ["-np", str(SIZE)]
    job = subprocess.Popen(
        [
            ranks.BUILD / "bin" / "xoe",
            "run",
            *place,
            "--timeout",
            str(ranks.HANGS),
            ranks.interpreter(),
            folder / "program.py",
            json.dumps(plan),
        ],
        env=ranks.environment(XOE_TEST_MARK=mark),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    text = ""
    for line in job.stdout:
        text += line
        if victim := re.search(r"^\[\d+\] end process (\d+)", line):
            os.kill(int(victim[1]), signal.SIGKILL)
    code = job.wait()
    named = re.search(r"^xoe run: rank (\d+) \(host", text, re.M)
    honest = re.search(rf"which came first is not known:.*\brank {plan['rank']}\b", text)
    wrong = []
    if (named is None or int(named[1]) != plan["rank"]) and not honest:
        wrong.append(f"rank {plan['rank']} is not named")
    if code != WAYS[way] and not honest:
        wrong.append(f"exit code {code} instead of {WAYS[way]}")
    end = time.monotonic() + 20
    while processes(mark) and time.monotonic() < end:
        time.sleep(0.05)
    if left := processes(mark):
        wrong.append(f"{len(left)} processes are left")
        for pid in left:
            os.kill(pid, signal.SIGKILL)
    if wrong:
        print(
            f"round {number}, seed {seed}, {'three hosts' if hosts else 'one host'}, {plan}: {'; '.join(wrong)}\n{text}",
            flush=True,
        )
    return wrong, bool(honest)


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 2 * len(WAYS)
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    before = segments()
    failed = unsure = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "program.py").write_text(textwrap.dedent(PROGRAM))
        (folder / "ssh").write_text(SSH)
        (folder / "ssh").chmod(0o700)
        for number in range(rounds):
            wrong, honest = run_round(folder, number, first + number)
            failed += bool(wrong)
            unsure += honest
    left = segments() - before
    print(f"{rounds} rounds, {failed} with a fault, {unsure} without a first one, {len(left)} segments left: {sorted(left)}")
    sys.exit(1 if failed or left or unsure > max(1, rounds // 20) else 0)


main()
