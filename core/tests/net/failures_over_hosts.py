#!/usr/bin/env python3
"""Ranks that train over two hosts, and lose one of their own, an agent, the launcher, a link or their user's patience.

  failures_over_hosts.py BIN [TEST...]      BIN: the folder of xoe and xoe-train

The hosts are network namespaces that this test sets up and removes. It needs root, iproute2 and openssh-server; else it
says what is missing and exits 77. XOE_NET_ROUNDS: how often each is done (default 1), each time at another moment.
"""

import os
import pathlib
import random
import signal
import sys
import time

from launch_over_ssh import HostsTests, main_of

ROUNDS = int(os.environ.get("XOE_NET_ROUNDS", "1"))
HOSTS = ["-H", "nodeA:2,nodeB:2"]
# Each rank prints its pid and that of its agent, the parent of its supervisor. Then it trains without end.
TRAIN = ('read -r _ _ _ agent _ < /proc/$PPID/stat; echo "at $XOE_RANK $$ $agent"; exec {folder}/xoe-train --synthetic '
         "--classes 10 --model mlp --image-size 16 --batch 4 --steps 100000000 --report-every 20 --json")


class Tests(HostsTests):
    def training(self, *options):
        """A job that trains, at a moment that is drawn, and the places of its ranks."""
        job = self.start([*HOSTS, *options], TRAIN.format(folder=pathlib.Path(self.xoe).parent))
        places = job.places(4)
        job.wait_for_out('"step"')
        time.sleep(random.uniform(0, 0.3))
        return job, places

    def test_kill_a_rank(self):
        for turn in range(ROUNDS):
            job, places = self.training()
            rank = (3 + turn) % 4
            os.kill(places[rank][0], signal.SIGKILL)
            self.expect_end(job, 137, f"rank {rank} (host {'nodeA' if rank < 2 else 'nodeB'}, ", "SIGKILL", within=8)

    def test_kill_an_agent(self):
        for turn in range(ROUNDS):
            rank, node = ((2, "nodeB"), (1, "nodeA"))[turn % 2]
            job, places = self.training()
            os.kill(places[rank][1], signal.SIGKILL)
            self.expect_end(job, 125, f"host {node}: lost: ", within=10)

    def test_kill_the_launcher(self):
        for _ in range(ROUNDS):
            job, _places = self.training()
            job.process.kill()
            job.wait()
            self.expect(self.hosts.all_gone(), f"left: {self.hosts.left()}")

    def test_cut_a_link(self):
        for _ in range(ROUNDS):
            job, _places = self.training("--host-timeout", "2")
            self.hosts.call("cut", "nodeB")
            try:
                # The launcher and the ranks of nodeA find out by themselves, about at once: either ends the job.
                self.expect_end(job, None, "host nodeB", "nothing was heard", within=10)
            finally:
                self.hosts.call("heal", "nodeB")
            self.expect(self.hosts.all_gone(), f"left: {self.hosts.left()}")

    def test_ctrl_c(self):
        for _ in range(ROUNDS):
            job, _places = self.training()
            os.killpg(job.process.pid, signal.SIGINT)
            self.expect_end(job, 130, within=8)


if __name__ == "__main__":
    sys.exit(main_of(Tests, f"{sys.argv[1]}/xoe", sys.argv[2:]))
