#!/usr/bin/env python3
"""Rounds of trainings whose pods and ranks are killed, deleted and evicted at random: each ends with the same loss.

  kills_test.py [TEST...]      XOE_KUBERNETES_ROUNDS: how many (default 20); XOE_KUBERNETES_SEED: of the choices (default 1)
"""

import os
import random
import signal
import sys
import time

from cluster import expect, main_of
from training import KINDS, STEPS, Training

ROUNDS = int(os.environ.get("XOE_KUBERNETES_ROUNDS", "20"))
SEED = int(os.environ.get("XOE_KUBERNETES_SEED", "1"))


class Tests(Training):
    def test_rounds(self):
        for number in range(ROUNDS):
            choose = random.Random(f"{SEED} {number}")
            kind = KINDS[number % len(KINDS)]
            options = ["--restarts", "10"] if choose.random() < 0.5 else []
            began = time.monotonic()
            with self.cluster.namespace(f"round-{number}") as namespace:
                self.submit(kind, namespace, *options)
                done = [self.disturb(choose, namespace) for _ in range(choose.choice((1, 1, 2)))]
                self.expect_trained(kind, namespace)
            print(f"round {number}: {kind} {' '.join(options)}: {', '.join(done)}: {time.monotonic() - began:.1f} s", flush=True)

    def disturb(self, choose, namespace):
        """One of the ways in which a pod or a rank is lost; returns what was done."""
        index = choose.randrange(2)
        ways = [self.delete_pod, self.delete_at_once, self.evict, self.kill_pod, self.kill_rank]
        way = choose.choice(ways)
        before = self.losses(self.output(namespace))
        self.wait_for_step(namespace, min(STEPS // 2, (before[-1][0] if before else 0) + choose.randrange(10, 80)))
        pod = self.running(namespace, index)
        way(choose, namespace, pod)
        return f"{way.__name__} {index}"

    def delete_pod(self, _choose, namespace, pod):
        self.cluster.kubectl("delete", "pod", pod.name, "-n", namespace, "--wait=false")

    def delete_at_once(self, _choose, namespace, pod):
        self.cluster.kubectl("delete", "pod", pod.name, "-n", namespace, "--grace-period=0", "--force")

    def evict(self, _choose, namespace, pod):
        """As for a node that is drained."""
        self.cluster.api.call("POST", f"{pod.path}/eviction", {"apiVersion": "policy/v1", "kind": "Eviction",
                                                               "metadata": {"name": pod.name, "namespace": namespace}})

    def kill_pod(self, _choose, _namespace, pod):
        pod.signal(signal.SIGKILL)

    def kill_rank(self, choose, namespace, pod):
        ranks = self.cluster.wait("ranks", lambda: self.ranks_of(pod))
        rank, process = choose.choice(sorted(ranks.items()))
        host = pod.object["spec"]["hostname"]
        os.kill(process, signal.SIGKILL)
        self.cluster.wait(f"a message that names rank {rank} and pod {host}", lambda: self.is_named(namespace, rank, host), 30)

    def is_named(self, namespace, rank, host):
        lines = [line for pod in self.cluster.ran(namespace) for line in pod.log.read_text(errors="replace").splitlines()]
        return any(f"rank {rank}" in line and host in line for line in lines)

    @staticmethod
    def ranks_of(pod):
        """{rank: process id}, from the variables of the processes."""
        found = {}
        for process in pod.processes():
            try:
                with open(f"/proc/{process}/environ", "rb") as file:
                    variables = dict(entry.partition(b"=")[::2] for entry in file.read().split(b"\0"))
                program = os.path.basename(os.readlink(f"/proc/{process}/exe"))
            except OSError:
                continue
            if b"XOE_RANK" in variables and program.startswith("xoe-train"):
                found[int(variables[b"XOE_RANK"])] = process
        expect(len(found) <= 2, f"{found} in one pod")
        return found


if __name__ == "__main__":
    sys.exit(main_of(Tests))
