#!/usr/bin/env python3
"""A training whose pods come and go: the others go on in their processes, and what the last ones have is saved.

  elastic_test.py [TEST...]
"""

import re
import sys

from cluster import XOE, expect, main_of, run
from training import NAME, Training, train

ENDLESS = 10**7


class Tests(Training):
    def wait_for_said(self, namespace, words, times=1):
        """By the launcher, in pod 0."""
        self.cluster.wait(f"{times} times `{words}`", lambda: len(re.findall(words, self.output(namespace))) >= times, 300)

    def wait_for_more(self, namespace):
        done = self.losses(self.output(namespace))
        self.wait_for_step(namespace, (done[-1][0] if done else 0) + 30)

    def job_of(self, namespace):
        """The Job to which the pods belong."""
        jobs = self.cluster.api.get(f"/apis/batch/v1/namespaces/{namespace}/jobs")["items"]
        expect(len(jobs) == 1, f"jobs: {[job['metadata']['name'] for job in jobs]}")
        return jobs[0]["metadata"]["name"]

    def test_pods_of_a_job_come_and_go(self):
        self.come_and_go("job")

    def test_pods_of_a_trainjob_come_and_go(self):
        self.come_and_go("trainjob")

    def come_and_go(self, kind):
        program = train("/data/images", "--checkpoint", "/data/checkpoints", "--ledger", "/data/ledger", steps=ENDLESS)
        with self.cluster.namespace(f"elastic-{kind}") as namespace:
            self.submit(kind, namespace, program=program, count=("--nodes", "1:2", "-np", "1"))
            self.wait_for_more(namespace)
            job = ("job", self.job_of(namespace), "-n", namespace)

            self.cluster.kubectl("delete", "pod", self.running(namespace, 1).name, "-n", namespace, "--wait=false")
            self.wait_for_said(namespace, "goes on with 1 rank")
            self.wait_for_said(namespace, "goes on with 2 ranks")
            self.wait_for_more(namespace)

            self.cluster.kubectl("patch", *job, "--type=merge", "-p", '{"spec":{"completions":1,"parallelism":1}}')
            self.wait_for_said(namespace, "goes on with 1 rank", 2)
            self.cluster.kubectl("patch", *job, "--type=merge", "-p", '{"spec":{"completions":2,"parallelism":2}}')
            self.wait_for_said(namespace, "goes on with 2 ranks", 2)
            self.wait_for_more(namespace)
            expect(len(self.pods_of(namespace, 0)) == 1, f"pod 0 was replaced\n{self.cluster.state()}")
            expect(len(self.pods_of(namespace, 1)) == 3, f"pod 1 has not left twice\n{self.cluster.state()}")

            self.cluster.kubectl("delete", kind, NAME, "-n", namespace, "--wait=false")
            self.cluster.wait("the end of pod 0", lambda: self.pods_of(namespace, 0)[0].ended)
            said = self.output(namespace)
            claim = self.cluster.kubelet.claims / namespace / "data"
            last = self.losses(said)[-1][0]
            expect(any((claim / "checkpoints").iterdir()), f"no checkpoint was written: {said[-3000:]}")
            told = run(XOE, "data", "ledger", claim / "ledger", "--json")
            print(f"{last} steps; {told.strip()[:300]}", flush=True)


if __name__ == "__main__":
    sys.exit(main_of(Tests))
