#!/usr/bin/env python3
"""Elastic training over two hosts, whose ranks are killed and restarted: it ends with the parameters of an undisturbed run.

  restart_over_hosts.py BUILD [TEST...]      BUILD: the folder of bin/ and python/

The hosts are network namespaces that this test sets up and removes. It needs root, iproute2, openssh-server, and PyTorch in
build/peers; else it says what is missing and exits 77.
"""

import os
import pathlib
import re
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "core/testing"))
import peer_python
from launch_over_ssh import HostsTests, main_of

TRAINING = pathlib.Path(__file__).resolve().parents[3] / "frameworks/tests/python/restart_training.py"
BUILD = pathlib.Path(sys.argv[1]).resolve()
PYTHON = peer_python.peer_python("pytorch", "torch")


class Tests(HostsTests):
    def train(self, *victims):
        """The parameters that all ranks end with, and what the job said."""
        with tempfile.TemporaryDirectory(prefix="xoe-test-") as marks:
            options = ["-H", "nodeA:2,nodeB:2", "--restarts", str(len(victims)), "--env", "PYTHONDONTWRITEBYTECODE=1"]
            script = f"exec {PYTHON} {TRAINING} {marks} {' '.join(victims)}"
            job = self.start(options, script, env=dict(os.environ, PYTHONPATH=str(BUILD / "python")))
            code, out, err = job.wait(240)
        self.expect(code == 0, f"exit code {code}: {out} {err}")
        values = set(re.findall(r"ended with (.*)", out))
        self.expect(out.count("ended with") == 4 and len(values) == 1, out)
        self.expect(self.hosts.all_gone(), f"left: {self.hosts.left()}")
        return values.pop(), out, err

    def test_ranks_of_both_hosts_come_back(self):
        wanted, _, _ = self.train()
        got, out, err = self.train("3:4", "0:7", "1:10", "2:10")
        self.expect(got == wanted, f"{got} instead of {wanted}")
        self.expect("0 of 4 restarts left" in err, err)
        for rank in range(4):
            pids = set(re.findall(rf"\[{rank}\] pid (\d+) from step", out))
            self.expect(len(pids) == 2, f"rank {rank}: {out}")


if __name__ == "__main__":
    if PYTHON is None:
        print(peer_python.why_no("pytorch", "torch"))
        sys.exit(peer_python.SKIPPED)
    sys.exit(main_of(Tests, BUILD / "bin" / "xoe", sys.argv[2:]))
