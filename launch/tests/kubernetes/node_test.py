#!/usr/bin/env python3
"""What `xoe run --print-kubernetes` prints, under a real kubelet with real containers.

  node_test.py [TEST...]
"""

import base64
import json
import os
import re
import signal
import sys
import time

from cluster import IMAGE, expect, main_of, print_kubernetes
from manifests import documents
from real_node import RealCluster

PODS, RANKS = 2, 2
MIB = 1 << 20
LASTS = ("sh", "-c", "example_sum && exec sleep 6")  # peers meet, and then there is time to disturb them
WORDS = ("a$$b", "$$", "$(HOME)", "$$(HOME)", "${HOME}", "two\nlines\n", "a \"b\" 'c' \\ d")
SEEN = """id -u; grep -E 'NoNewPrivs|Seccomp:|Cap(Eff|Prm|Bnd)' /proc/self/status
touch /x 2>&1; touch /tmp/x && echo temporary; df -B1 --output=size /dev/shm; cat /sys/fs/cgroup/memory/memory.limit_in_bytes"""


class Tests:
    def __init__(self, cluster):
        self.cluster = cluster

    def apply(self, kind, namespace, name, *program, image=IMAGE, change=None, ranks=RANKS):
        """`change`: is called with the container of the manifest."""
        text = print_kubernetes(kind, "--image", image, "--nodes", PODS, "-np", ranks, "--name", name, "--", *program)
        if change:
            items = documents(text)
            change(items[-1]["spec"]["template"]["spec"]["containers"][0])
            text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
        self.cluster.kubectl("apply", "-n", namespace, "-f", "-", text=text)

    def end(self, namespace, name, kind="job"):
        return self.cluster.wait(f"end of {kind} {name}", lambda: self.cluster.condition(kind, namespace, name))

    def expect_complete(self, namespace, name, kind="job"):
        ended = self.end(namespace, name, kind)
        expect(ended[0] == "Complete", lambda: f"{ended}\n{self.cluster.state()}")

    def running(self, namespace, index):
        """The pod of this index, once all ranks have met."""
        def find():
            for pod in self.cluster.ran(namespace):
                if pod.object["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] == str(index):
                    return pod if "rank " in self.log(pod) else None
            return None
        return self.cluster.wait(f"pod {index} with its ranks", find)

    def log(self, pod):
        return self.cluster.kubectl("logs", "-n", pod.namespace, pod.name, check=False)

    def logs(self, namespace):
        return [self.log(pod) for pod in self.cluster.ran(namespace)]

    def codes(self, namespace):
        """The exit codes of each pod's containers, in their order."""
        return {pod.name: pod.exit_codes for pod in self.cluster.ran(namespace)}

    def expect_codes(self, namespace, wanted):
        self.cluster.wait(f"exit codes {wanted}", lambda: sorted(self.codes(namespace).values()) == sorted(wanted), 10)

    def test_job_and_jobset(self):
        for kind in ("job", "jobset"):
            with self.cluster.namespace(f"node-{kind}") as namespace:
                self.apply(kind, namespace, "sum", "example_sum")
                self.expect_complete(namespace, "sum", kind)
                said = "".join(self.logs(namespace))
                for rank in range(PODS * RANKS):
                    expect(f"rank {rank} of 4: the sum is 10" in said, said)
                self.expect_codes(namespace, [[0], [0]])

    def test_deleted_pod(self):
        with self.cluster.namespace("node-deleted") as namespace:
            self.apply("job", namespace, "lasts", *LASTS)
            self.running(namespace, 0)
            pod = self.running(namespace, 1)
            self.cluster.kubectl("delete", "pod", "-n", namespace, pod.name)
            self.expect_complete(namespace, "lasts")
            self.expect_codes(namespace, [[76], [75, 0], [0]])
            expect(pod.exit_codes == [76], str(self.codes(namespace)))

    def test_killed_container(self):
        with self.cluster.namespace("node-killed") as namespace:
            self.apply("job", namespace, "lasts", *LASTS)
            self.running(namespace, 0)
            pod = self.running(namespace, 1)
            os.kill(self.cluster.kubelet.first_process(pod), signal.SIGKILL)
            self.expect_complete(namespace, "lasts")
            self.expect_codes(namespace, [[137], [75, 0], [0]])
            expect(pod.exit_codes == [137], str(self.codes(namespace)))

    def test_wrong_option(self):
        def change(container):
            container["command"].insert(2, "--no-such-option")
        with self.cluster.namespace("node-option") as namespace:
            began = time.monotonic()
            self.apply("job", namespace, "wrong", "example_sum", change=change)
            expect(self.end(namespace, "wrong") == ("Failed", "PodFailurePolicy"), self.cluster.state)
            expect(time.monotonic() - began < 20, f"it took {time.monotonic() - began:.1f} s")
            ended = [pod for pod in self.cluster.ran(namespace) if pod.exit_codes]
            expect(len(self.cluster.ran(namespace)) == PODS and all(pod.exit_codes == [2] for pod in ended), str(self.codes(namespace)))
            said = self.cluster.kubectl("describe", "pod", "-n", namespace, ended[0].name)
            expect(re.search(r"Message:.*--no-such-option", said, re.DOTALL) and re.search(r"Exit Code: +2\n", said), said)

    def test_wrong_image(self):
        with self.cluster.namespace("node-image") as namespace:
            self.apply("job", namespace, "typo", "example_sum", image="registry.example.com/typo:1")

            def reasons():
                return [status["state"].get("waiting", {}).get("reason") for pod in self.cluster.pods(namespace).values()
                        for status in pod["status"].get("containerStatuses", ())]
            self.cluster.wait("back-off", lambda: reasons() == PODS * ["ImagePullBackOff"])
            end = time.monotonic() + 15  # the kubelet tries again within 10 s
            while time.monotonic() < end:
                expect(set(reasons()) <= {"ErrImagePull", "ImagePullBackOff"}, self.cluster.state)
                time.sleep(0.5)
            expect(self.codes(namespace) == {name: [] for name in self.cluster.pods(namespace)} and
                   self.cluster.condition("job", namespace, "typo") is None, self.cluster.state)
            expect(len(self.cluster.ran(namespace)) == PODS, str(self.codes(namespace)))

    def test_inside_of_a_pod(self):
        def limit(container):
            container["resources"] = {"limits": {"memory": "256Mi"}}
        with self.cluster.namespace("node-inside") as namespace:
            self.apply("job", namespace, "inside", "sh", "-c", SEEN, change=limit, ranks=1)
            self.expect_complete(namespace, "inside")
            for said in self.logs(namespace):
                for wanted in ("65532", "NoNewPrivs:\t1", "Seccomp:\t2", "Read-only file system", "temporary", str(256 * MIB)):
                    expect(wanted in said, f"no {wanted}: {said}")
                expect(re.findall(r"Cap...:\t(\w+)", said) == 3 * [16 * "0"] and said.count(str(256 * MIB)) == 2, said)

    def test_words_arrive_unchanged(self):
        script = 'for word; do printf %s "$word" | base64 -w0; echo; done; printf %s "$0" | base64'
        with self.cluster.namespace("node-words") as namespace:
            self.apply("job", namespace, "words", "sh", "-c", script, WORDS[0], *WORDS, ranks=1)
            self.expect_complete(namespace, "words")
            wanted = [base64.b64encode(word.encode()).decode() for word in (*WORDS, WORDS[0])]
            for said in self.logs(namespace):
                expect([line.split()[-1] for line in said.splitlines() if line.strip()] == wanted, f"{said}: not {wanted}")


if __name__ == "__main__":
    sys.exit(main_of(Tests, RealCluster))
