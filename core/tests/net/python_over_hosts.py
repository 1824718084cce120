#!/usr/bin/env python3
"""The Python package's tests of collectives and of torch.distributed, on ranks of two hosts; some once more, encrypted.

  python_over_hosts.py BUILD

Needs root, iproute2 and openssh-server, and PyTorch in build/peers; else it says what is missing and exits 77.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

from netns_hosts import SKIPPED, Hosts, why_not

FOLDER = pathlib.Path(__file__).resolve().parent
PYTHON_TESTS = FOLDER.parents[2] / "frameworks/tests/python"
RUNS = (
    ("collectives_test.py", ()),
    ("sharded_test.py", ()),
    ("torch_distributed_start_test.py", ("--env", "XOE_TEST_ROLE=over_hosts")),
    ("torch_distributed_test.py", ()),
    ("torch_distributed_groups_test.py", ()),
    ("torch_distributed_hooks_test.py", ()),
    ("collectives_test.py", ("--encrypt",)),
    ("torch_distributed_test.py", ("--encrypt",)),
    ("torch_distributed_groups_test.py", ("--encrypt",)),
)
SECONDS = 240
# The rank of the second host raises, and takes its time to end; the others, on the launcher's host too, do not wait for that.
RAISES = """
import atexit, sys, time, xoe
from xoe.objects import allgather_object
xoe.init()
allgather_object(xoe.rank())
time.sleep(0.3)
if xoe.rank() == 2:
    atexit.register(time.sleep, 2)
    raise ValueError("learning rate is negative")
try:
    allgather_object(xoe.rank(), name="what the others wait for")
except xoe.PeerLostError as error:
    print(f"told: {error}", flush=True)
    sys.exit(3)
"""


def main():
    missing = why_not()
    if missing:
        print(f"skipped: {missing}")
        return SKIPPED
    os.environ["XOE_BUILD_DIR"] = str(pathlib.Path(sys.argv[1]).resolve())
    sys.path.insert(0, str(PYTHON_TESTS))
    import ranks

    interpreter = ranks.interpreter()
    environment = ranks.environment(**ranks.IN_A_RANK, XOE_TEST_LAYOUT="2,1")
    passed_on = [word for name in ("PYTHONPATH", "XOE_BUILD_DIR", "XOE_TEST_LAYOUT", *ranks.IN_A_RANK)
                 for word in ("--env", name)]
    failed = []
    with tempfile.TemporaryDirectory() as scratch:
        hosts = Hosts(pathlib.Path(scratch) / "hosts", ("nodeA", "nodeB"))

        def run(script, options=()):
            words = [ranks.BUILD / "bin" / "xoe", "run", "-H", "nodeA:2,nodeB:1", "--timeout", SECONDS, *options, *passed_on,
                     interpreter, script]
            done = subprocess.run([str(word) for word in hosts.command("nodeA", *words)], env=environment, check=False,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=2 * SECONDS)
            print(f"{' '.join([script.name, *options])}: exit code {done.returncode}", flush=True)
            return done

        try:
            for script, options in RUNS:
                done = run(PYTHON_TESTS / script, options)
                if done.returncode != 0:
                    print(done.stdout)
                    failed.append(script)
            script = pathlib.Path(scratch) / "raises.py"
            script.write_text(RAISES)
            done = run(script)
            blamed = re.search(r"rank 2 \(host nodeB, pid \d+\) (exited with code 1|failed) .*learning rate is negative", done.stdout)
            told = done.stdout.count("rank 2 failed: ValueError: learning rate is negative")
            if done.returncode != 1 or not blamed or told != 2:
                print(done.stdout)
                failed.append(script.name)
        finally:
            hosts.call("down")
    return f"failed: {', '.join(failed)}" if failed else 0


if __name__ == "__main__":
    sys.exit(main())
