#!/usr/bin/env python3
"""A host joins an elastic job whose launcher it reaches, but not all of its hosts: it is left out, with a reason, and the others go on.

  newcomer_over_hosts.py XOE TRAINING [TEST...]      TRAINING: the program elastic_training

The hosts are network namespaces that this test sets up and removes. It needs root, iproute2 and openssh-server; else it says what is
missing and exits 77.
"""

import pathlib
import re
import sys
import tempfile
import time

from launch_over_ssh import HostsTests, main_of

TRAINING = pathlib.Path(sys.argv[2]).resolve()
HANGS = 600  # seconds


class Tests(HostsTests):
    def until(self, job, pattern, times=1):
        end = time.monotonic() + HANGS
        while len(found := re.findall(pattern, job.text(job.out) + job.text(job.err))) < times:
            self.expect(time.monotonic() < end, f"no {pattern}: {job.text(job.out)[-3000:]} {job.text(job.err)}")
            self.expect(job.process.poll() is None, f"it has ended: {job.text(job.out)[-3000:]} {job.text(job.err)}")
            time.sleep(0.05)
        return found[-1]

    def test_a_host_that_does_not_reach_another_one_is_left_out(self):
        with tempfile.TemporaryDirectory(prefix="xoe-test-") as made:
            folder = pathlib.Path(made)
            named = folder / "named"
            named.write_text("nodeA:1\nnodeB:1\n")
            # What nodeC sends to nodeB goes nowhere.
            address = self.hosts.call("exec", "nodeC", "getent", "hosts", "nodeB").split()[0]
            self.hosts.call("exec", "nodeC", "ip", "neigh", "replace", address, "lladdr", "02:00:00:00:00:ee", "nud", "permanent", "dev", "eth0")
            options = ["--host-discovery-script", f"cat {named}", "--min-np", "1", "--max-np", "4", "--timeout", str(HANGS)]
            job = self.start(options, f"exec {TRAINING} {folder} 1")
            pids = [self.until(job, rf"\[{slot}\] pid (\d+) rank \d of 2 begins") for slot in range(2)]
            (folder / "new").write_text("nodeA:1\nnodeB:1\nnodeC:2\n")
            (folder / "new").rename(named)
            self.until(job, r"host nodeC is left out: rank \d there and rank 1 \(host nodeB\) do not reach each other")
            for slot in range(2):
                self.until(job, rf"\[{slot}\] pid {pids[slot]} rank {slot} of 2 begins", times=2)
            before = len(re.findall(r"\[1\] .* of 2 has done step", job.text(job.out)))
            self.until(job, r"\[1\] .* of 2 has done step", times=before + 5)
            (folder / "stop").touch()
            code, out, err = job.wait(HANGS)
            self.expect(code == 0, f"exit code {code}: {out[-3000:]} {err}")
            self.expect(err.count("is left out") == 1 and "of 4 begins" not in out, f"{out[-3000:]} {err}")
            self.expect(self.hosts.all_gone(), f"left: {self.hosts.left()}")


if __name__ == "__main__":
    sys.exit(main_of(Tests, sys.argv[1], sys.argv[3:]))
