#!/usr/bin/env python3
"""xoe run --rendezvous on hosts in network namespaces, which play the pods of a job with a headless service.

  rendezvous_over_hosts.py BIN ALLREDUCE [TEST...]    the folder of xoe and xoe-train, and the program allreduce_program

Needs root, iproute2 and openssh-server; else it says what is missing and exits 77.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from netns_hosts import SKIPPED, Hosts, why_not

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "core/testing"))
import cases
from watched_process import WatchedProcess

PODS = ("job-0", "job-1", "job-2")
DOMAIN = "net.ns.svc.cluster.local"
HERE, ELSEWHERE = 75, 76
STAY = ["bash", "-c", 'echo "ready $XOE_RANK"; exec sleep 1000']
TRAIN = ["train", "--synthetic", "--classes", "10", "--model", "mlp", "--seed", "5", "--report-every", "1", "--steps", "40", "--json"]
SMALL = ["--image-size", "16", "--batch", "4"]
LARGE = ["--image-size", "64", "--batch", "32"]  # slow enough that a signal comes in the middle


class Pod(WatchedProcess):
    """One xoe run --rendezvous in a namespace."""

    def __init__(self, pods, index, options, program, variables):
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("XOE_", "PET_", "JAX_", "SLURM_"))}
        environment |= {"XOE_RENDEZVOUS_SECRET_FILE": str(pods.secret), **variables}
        words = ["run", *options, "--", *program]
        super().__init__(PODS[index], pods.hosts.command(PODS[index], f"{pods.folder}/xoe", *words), environment)

    def wait(self, seconds=120):
        return super().wait(seconds)


class Tests:
    def __init__(self, hosts, folder, allreduce, scratch):
        self.hosts, self.folder, self.allreduce, self.scratch = hosts, folder, allreduce, scratch
        self.secret = scratch / "secret"
        self.secret.write_text("00112233445566778899aabbccddeeff\n")
        self.pods = []

    def start(self, index, options, program, variables=None):
        self.pods.append(Pod(self, index, options, program, variables or {}))
        return self.pods[-1]

    def job(self, options, program, count=3, **variables):
        """All pods of an indexed job."""
        return [self.start(index, ["--rendezvous", "auto", *options], program,
                           {"JOB_COMPLETION_INDEX": str(index), "XOE_NODES": str(count), **variables}) for index in range(count)]

    def codes(self, pods, expected):
        codes = [pod.wait() for pod in pods]
        if codes != expected:
            raise AssertionError(f"exit codes {codes} and not {expected}: " + " ".join(pod.err[-1000:] for pod in pods))
        if not self.hosts.all_gone():
            raise AssertionError(f"left: {self.hosts.left()}")

    def clean(self):
        for pod in self.pods:
            pod.end()
        self.pods = []

    def test_an_indexed_job(self):
        self.codes(self.job(["-np", "2"], [self.allreduce]), [0, 0, 0])

    def test_variables_of_other_schedulers(self):
        first = f"{PODS[0]}.{DOMAIN}"
        for variables in (
                lambda i: {"PET_NNODES": "2", "PET_NODE_RANK": str(i), "PET_MASTER_ADDR": first, "PET_MASTER_PORT": "29400",
                           "PET_NPROC_PER_NODE": "1", "JOB_COMPLETION_INDEX": str(i)},
                lambda i: {"JAX_NUM_PROCESSES": "2", "JAX_PROCESS_ID": str(i), "JAX_COORDINATOR_ADDRESS": f"{first}:6666"},
                lambda i: {"LWS_GROUP_SIZE": "2", "LWS_WORKER_INDEX": str(i), "LWS_LEADER_ADDRESS": first},
                lambda i: {"SLURM_NNODES": "2", "SLURM_NODEID": str(i), "SLURM_JOB_NODELIST": "job-[0-1]", "SLURM_JOB_ID": "7"}):
            self.codes([self.start(index, ["--rendezvous", "auto"], [self.allreduce], variables(index)) for index in range(2)], [0, 0])

    def test_a_name_that_comes_late(self):
        late = [self.start(index, ["--rendezvous", "late.example", "--node-rank", index, "--nodes", "2", "-np", "1"], [self.allreduce])
                for index in (1, 0)]
        time.sleep(12)
        late[0].says("waits for member 0 since 1")
        late[0].says("the name late.example is not known here")
        with open(self.scratch / "hosts/hosts", "a", encoding="utf-8") as file:
            file.write("10.77.0.2 late.example\n")
        self.codes(late, [0, 0])

    def test_a_pod_that_vanishes(self):
        pods = self.job(["-np", "2", "--host-timeout", "2"], STAY)
        for pod in pods:
            pod.says("ready")
        self.hosts.call("cut", "job-1")
        try:
            if [pods[0].wait(20), pods[2].wait(20), pods[1].wait(20)] != [HERE, HERE, HERE]:
                raise AssertionError(pods[0].err)
            for pod in (pods[0], pods[2]):
                pod.says("host job-1: lost: nothing was heard of it for 2")
                pod.says("its ranks: 2-3")
            pods[1].says("member 0 (job-0.net.ns.svc.cluster.local) is lost")
        finally:
            self.hosts.call("heal", "job-1")
        if not self.hosts.all_gone():
            raise AssertionError(f"left: {self.hosts.left()}")

    def test_training_goes_on_when_a_pod_is_back(self):
        if not pathlib.Path(self.folder, "xoe-train").exists():
            raise unittest.SkipTest("no xoe-train")
        program = [f"{self.folder}/xoe", *TRAIN, *LARGE, "--checkpoint", self.scratch / "kept", "--checkpoint-every", "2", "--resume"]
        pods = self.job(["-np", "2", "--restarts", "1", "--host-timeout", "2"], program, count=2)
        pods[0].says('"loss"')
        self.hosts.call("cut", "job-1")
        try:
            pods[0].says("the job begins again; 0 of 1 restarts left")
            pods[1].says("waits for member 0 to come back")
        finally:
            self.hosts.call("heal", "job-1")
        self.codes(pods, [0, 0])

    def test_training_and_a_pod_that_is_deleted(self):
        if not pathlib.Path(self.folder, "xoe-train").exists():
            raise unittest.SkipTest("no xoe-train")
        xoe = f"{self.folder}/xoe"

        def losses(text):
            lines = [json.loads(line[line.index("{"):]) for line in text.splitlines() if "{" in line]
            return {line["step"]: line["loss"] for line in lines if "loss" in line and "step" in line}

        alone = subprocess.run([xoe, "run", "-np", "4", xoe, *TRAIN, *SMALL], capture_output=True, text=True, timeout=180, check=True)
        whole = losses(alone.stdout)
        pods = self.job(["-np", "2"], [xoe, *TRAIN, *SMALL], count=2)
        self.codes(pods, [0, 0])
        worst = max(abs(whole[step] - loss) for step, loss in losses(pods[0].out).items())
        if worst > 1e-5:
            raise AssertionError(f"losses differ by {worst}")

        resumed = [xoe, *TRAIN, *LARGE, "--checkpoint", self.scratch / "checkpoints", "--resume"]
        pods = self.job(["-np", "2"], resumed, count=2)
        pods[0].says('"loss"')
        pods[1].process.send_signal(signal.SIGTERM)
        self.codes(pods, [HERE, ELSEWHERE])
        if not list((self.scratch / "checkpoints").glob("*")):
            raise AssertionError("no checkpoint")
        first = losses(pods[0].out)
        pods = self.job(["-np", "2"], resumed, count=2)
        self.codes(pods, [0, 0])
        second = losses(pods[0].out)
        if max(second) != 40 or min(second) != max(first) + 1:
            raise AssertionError(f"steps {sorted(first)} and then {sorted(second)}")
        print(f"within {worst:.1e} of one host; {max(first)} steps, a checkpoint at SIGTERM, and the rest")


def main():
    missing = why_not()
    if missing:
        print(f"skipped: {missing}")
        return SKIPPED
    folder, allreduce, chosen = sys.argv[1], sys.argv[2], sys.argv[3:]
    with tempfile.TemporaryDirectory() as scratch:
        path = pathlib.Path(scratch)
        hosts = Hosts(str(path / "hosts"), PODS)
        try:
            with open(path / "hosts/hosts", "a", encoding="utf-8") as file:
                for index, pod in enumerate(PODS):
                    file.write(f"10.77.0.{index + 2} {pod}.{DOMAIN} {pod}\n")
            tests = Tests(hosts, folder, allreduce, path)
            return cases.run(cases.chosen(cases.methods(tests), chosen), after=tests.clean)
        finally:
            hosts.call("down")


if __name__ == "__main__":
    sys.exit(main())
