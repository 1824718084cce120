#!/usr/bin/env python3
"""A Job, a JobSet and a TrainJob train over two pods as four ranks on one host do, also when pods are deleted or killed.

  training_test.py [TEST...]
"""

import signal
import sys
import time

from cluster import expect, main_of
from training import KINDS, STEPS, Training


class Tests(Training):
    def each(self, what):
        for kind in KINDS:
            with self.cluster.namespace(f"{what}-{kind}") as namespace:
                yield kind, namespace

    def test_trains_as_on_one_host(self):
        for kind, namespace in self.each("trains"):
            self.submit(kind, namespace)
            loss = self.expect_trained(kind, namespace)
            expect(len(self.cluster.ran(namespace)) == 2, self.cluster.state)
            print(f"{kind}: loss {loss:.6f} after {STEPS} steps, {self.wanted:.6f} on one host", flush=True)

    def test_trainjob_has_the_progress(self):
        with self.cluster.namespace("progress") as namespace:
            self.submit("trainjob", namespace)
            self.expect_trained("trainjob", namespace)
            status = self.cluster.find("trainjob", namespace, "train")["status"]
            expect(status["trainerStatus"]["progressPercentage"] == 100, str(status))
            expect(any(metric["name"] == "loss" for metric in status["trainerStatus"]["metrics"]), str(status))

    def test_deleted_pod(self):
        for kind, namespace in self.each("deleted"):
            self.submit(kind, namespace)
            self.wait_for_step(namespace, 80)
            survivor, victim = self.running(namespace, 0), self.running(namespace, 1)
            self.cluster.kubectl("delete", "pod", victim.name, "-n", namespace)
            written = sorted((self.cluster.kubelet.claims / namespace / "data/checkpoints").iterdir())
            expect(written, "no checkpoint was written within the grace period")
            self.expect_trained(kind, namespace, interrupted=True)
            expect(len(self.pods_of(namespace, 1)) == 2, self.cluster.state)
            expect(self.pods_of(namespace, 0) == [survivor], "the pod that was not deleted was replaced too")

    def test_killed_pod(self):
        for kind, namespace in self.each("killed"):
            self.submit(kind, namespace)
            self.wait_for_step(namespace, 80)
            survivor, victim = self.running(namespace, 0), self.running(namespace, 1)
            victim.signal(signal.SIGKILL)
            self.expect_trained(kind, namespace, interrupted=True)
            expect(len(self.pods_of(namespace, 1)) == 2, self.cluster.state)
            expect(self.pods_of(namespace, 0) == [survivor], "the pod that was not killed was replaced too")

    def test_killed_first_pod(self):
        for kind, namespace in self.each("leader"):
            self.submit(kind, namespace)
            self.wait_for_step(namespace, 80)
            self.running(namespace, 0).signal(signal.SIGKILL)
            self.expect_trained(kind, namespace, interrupted=True)

    def test_survivor_goes_on_where_restarts_are_allowed(self):
        with self.cluster.namespace("survivor") as namespace:
            self.submit("jobset", namespace, "--restarts", "5")
            self.wait_for_step(namespace, 80)
            survivor, victim = self.running(namespace, 0), self.running(namespace, 1)
            victim.signal(signal.SIGKILL)
            self.expect_trained("jobset", namespace, interrupted=True)
            expect(self.pods_of(namespace, 0) == [survivor] and survivor.restarts == 0, self.cluster.state)

    def test_wrong_argument_is_not_retried(self):
        for kind, namespace in self.each("argument"):
            self.submit(kind, namespace, program=["xoe", "train", "--no-such-option"])
            ended = self.end(kind, namespace, 60)
            expect(ended[0] == "Failed", lambda: f"{ended}\n{self.cluster.state()}")
            expect(len(self.cluster.ran(namespace)) == 2, lambda: f"it was retried: {self.cluster.state()}")
            expect("--no-such-option" in self.output(namespace), self.output(namespace))

    def test_missing_program_is_not_retried(self):
        for kind, namespace in self.each("program"):
            self.submit(kind, namespace, program=["no-such-program"])
            expect(self.end(kind, namespace, 60)[0] == "Failed", self.cluster.state)
            expect(len(self.cluster.ran(namespace)) == 2, lambda: f"it was retried: {self.cluster.state()}")

    def test_wrong_image_is_not_retried(self):
        for kind, namespace in self.each("image"):
            self.submit(kind, namespace, image="registry.example.com/typo:1")

            def waits():
                states = [status["state"].get("waiting", {}).get("reason") for pod in self.cluster.pods(namespace).values()
                          for status in pod["status"].get("containerStatuses", ())]
                return states == ["ImagePullBackOff"] * 2
            self.cluster.wait("back-off of both pods", waits)
            time.sleep(2)
            expect(len(self.cluster.ran(namespace)) == 2, self.cluster.state)
            self.delete(kind, namespace)


if __name__ == "__main__":
    sys.exit(main_of(Tests))
