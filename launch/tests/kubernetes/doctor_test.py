#!/usr/bin/env python3
"""`xoe doctor` in pods: the lines that it prints for a pod's manifest, put into that manifest, mend what it found.

  doctor_test.py [TEST...]
"""

import json
import sys

from cluster import IMAGE, expect, main_of
from manifests import documents

RESTRICTED = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
MENDED = ("memory.shm", "container.files", "container.leader", "container.secret")
SERVICE, SECRET = "train", "train-secret"


def poor_pod():
    """As strict as Pod Security asks, and without anything that a training needs."""
    container = {"name": "node", "image": IMAGE, "command": ["sh", "-c", "xoe doctor --json; true"], "securityContext": RESTRICTED,
                 "env": [{"name": "XOE_RENDEZVOUS_SECRET_FILE", "value": "/etc/xoe/secret"}]}
    return {"restartPolicy": "Never", "containers": [container],
            "securityContext": {"runAsNonRoot": True, "runAsUser": 1234, "seccompProfile": {"type": "RuntimeDefault"}}}


def job(name, pod):
    """With the service and the secret that its pods may use."""
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": SERVICE}, "spec": {
        "clusterIP": "None", "publishNotReadyAddresses": True, "selector": {"batch.kubernetes.io/job-name": name}}}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET}, "stringData": {"secret": 32 * "x"}}
    made = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {
        "completionMode": "Indexed", "completions": 1, "parallelism": 1, "template": {"spec": pod}}}
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": [service, secret, made]})


def patch(pod, manifest):
    """What `kubectl patch` does with lists of these names: their elements are added."""
    text = manifest.replace("NAME", "node").replace("SERVICE", SERVICE).replace("SECRET", SECRET)
    [document] = documents(text)
    for key, value in document["spec"].items():
        if key == "containers":
            [container] = value
            expect(container.pop("name") == "node", manifest)
            for part, more in container.items():
                pod["containers"][0][part] = pod["containers"][0].get(part, []) + more
        else:
            pod[key] = pod.get(key, []) + value if isinstance(value, list) else value


class Tests:
    def __init__(self, cluster):
        self.cluster = cluster

    def findings(self, namespace, name, pod):
        """By id."""
        self.cluster.kubectl("apply", "-n", namespace, "-f", "-", text=job(name, pod))
        ended = self.cluster.wait(f"end of job {name}", lambda: self.cluster.condition("job", namespace, name))
        expect(ended[0] == "Complete", self.cluster.state)
        [log] = [self.cluster.kubectl("logs", "-n", namespace, one) for one in self.cluster.pods(namespace) if one.startswith(name)]
        return {one["id"]: one for one in json.loads(log)["findings"]}

    def test_what_it_prints_mends_what_it_found(self):
        with self.cluster.namespace("doctor") as namespace:
            pod = poor_pod()
            found = self.findings(namespace, "poor", pod)
            expect(found["virtual.container"]["details"]["container"] == "Kubernetes", found["virtual.container"])
            expect(found["container.dns"]["state"] == "ok", found["container.dns"])
            for key in MENDED:
                expect(found[key]["state"] in ("warning", "problem") and found[key]["manifest"], found[key])
                patch(pod, found[key]["manifest"])
            found = self.findings(namespace, "mended", pod)
            for key in MENDED:
                expect(found[key]["state"] in ("ok", "note"), found[key])
            expect("mended-0.train.doctor.svc" in found["container.leader"]["what"], found["container.leader"])


if __name__ == "__main__":
    sys.exit(main_of(Tests))
