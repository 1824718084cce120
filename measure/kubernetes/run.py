#!/usr/bin/env python3
"""Pods of a pretended Kubernetes beside bare processes: what they cost a training on this machine.

  measure/kubernetes/run.py [--rounds 10] [--model resnet18] [--sizes 4,64K,1M,16M]

Needs root and what launch/tests/kubernetes/install.sh builds. The API server, etcd and the controllers are real; scheduler, kubelet, container
runtime and network are those of launch/tests/kubernetes: pods are network name spaces on one bridge, without control groups, and their images
are this machine's files. So the figures show what the API, names, the rendezvous and a bridge cost, and not what a kubelet, an image
that must be pulled, an overlay network or limits cost. Measured are the quantities of measure/containers; in a pod the start is the time
from the creation of an Indexed Job to its completion.

`xoe bench compare` judges what came out, and writes build/bench/kubernetes/kubernetes.html. (--out may not be below /tmp, of which the
cluster has a copy that ends with it.)
"""

import argparse
import itertools
import pathlib
import secrets
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "measure/containers"), str(ROOT / "launch/tests/kubernetes")]

import control_plane
import sandbox
from cluster import IMAGE, Cluster
from places import Places, add_options, compare, save

NAMESPACE = "bench"
RESTRICTED = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}


class Pods(Places):
    """Bare processes, and pods that write to a volume that all of them share."""

    names = ("bare", "pods")

    def __init__(self, options, cluster):
        super().__init__(options, cluster.kubelet.claims / NAMESPACE / "results")
        self.scratch.mkdir(parents=True)
        self.scratch.chmod(0o777)
        self.cluster = cluster
        self.numbers = itertools.count()
        self.bare_agent = self.agent("agent")
        # The secret of all jobs, and a name for the pods of each.
        cluster.api.call("POST", f"/api/v1/namespaces/{NAMESPACE}/secrets", {
            "kind": "Secret", "metadata": {"name": "job"}, "stringData": {"secret": secrets.token_hex(32)}})
        cluster.api.call("POST", f"/api/v1/namespaces/{NAMESPACE}/services", {
            "kind": "Service", "metadata": {"name": "job"},
            "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {"measured": "yes"}}})

    def run_pods(self, pods, ranks, *words):
        """An Indexed Job of so many pods with so many ranks each, from its creation to its completion."""
        name = f"job-{next(self.numbers)}"
        command = ["xoe", "run", "--rendezvous", "auto", "--nodes", pods, "-np", ranks, "--oversubscribe",
                   *(["--backend", "gloo"] if pods > 1 else []), "--", *words]
        volumes = [{"name": "results", "persistentVolumeClaim": {"claimName": "results"}},
                   {"name": "secret", "secret": {"secretName": "job"}}]
        container = {
            "name": "job", "image": IMAGE, "command": [str(word) for word in command], "securityContext": RESTRICTED,
            "env": [{"name": "XOE_RENDEZVOUS_SECRET_FILE", "value": "/etc/xoe/secret"}, {"name": "OMP_NUM_THREADS", "value": "1"}],
            "volumeMounts": [{"name": "results", "mountPath": str(self.scratch)},
                             {"name": "secret", "mountPath": "/etc/xoe", "readOnly": True}]}
        pod = {"subdomain": "job", "restartPolicy": "Never", "containers": [container], "volumes": volumes,
               "securityContext": {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}}}
        spec = {"completionMode": "Indexed", "completions": pods, "parallelism": pods, "backoffLimit": 0,
                "template": {"metadata": {"labels": {"measured": "yes"}}, "spec": pod}}
        self.cluster.api.call("POST", f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs", {
            "kind": "Job", "metadata": {"name": name}, "spec": spec})
        how, reason = self.cluster.wait(f"end of {name}", lambda: self.cluster.condition("job", NAMESPACE, name), 600)
        if how != "Complete":
            sys.exit(f"error: {' '.join(map(str, words))} in pods: {how} ({reason})\n{self.cluster.state()}")

    def together(self, place, *words):
        if place == "pods":
            self.run_pods(1, 2, *words)
        else:
            self.run_in_one_place(*words)

    def apart(self, place, *words):
        if place == "pods":
            self.run_pods(2, 1, *words)
        else:
            self.run_over_network(self.bare_agent, *words)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser, "kubernetes")
    if {"-h", "--help"} & set(sys.argv):
        parser.parse_args()
    if reason := sandbox.why_not() or control_plane.why_not():
        print(f"not measured: {reason}")
        return 0
    folder = sandbox.enter()
    options = parser.parse_args()
    cluster = Cluster(folder)
    with cluster.namespace(NAMESPACE):
        paths = save(options, *Pods(options, cluster).measure())
    compare(options, paths, "kubernetes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
