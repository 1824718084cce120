"""A pretended cluster for tests: a real control plane, a pretended node, and a namespace for each test."""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import time

import control_plane
import sandbox
from container import ROOT, Image
from kubelet import Kubelet
from names import Names

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "core/testing"))
import cases

IMAGE = "registry.example.com/xoe:1"
BUILD = pathlib.Path(os.environ.get("XOE_BUILD_DIR", ROOT / "build/release")).resolve()
XOE = BUILD / "bin/xoe"
PATH = f"{BUILD / 'bin'}:/usr/local/bin:/usr/bin:/bin"


def expect(condition, what):
    """`what`: the message, or a function that makes it."""
    if not condition:
        raise AssertionError(what() if callable(what) else what)


def run(*words, seconds=300, **options):
    """What a command of this machine prints."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=seconds, check=False, **options)
    expect(done.returncode == 0, f"{' '.join(map(str, words))}: exit code {done.returncode}: {done.stderr} {done.stdout}")
    return done.stdout


def print_kubernetes(kind, *words):
    return run(XOE, "run", "--print-kubernetes", kind, *words)


class Cluster:
    controllers = control_plane.CONTROLLERS
    our_programs = ("xoe",)  # how the names of the programs begin that end with the pods

    def __init__(self, folder):
        self.plane = control_plane.ControlPlane(folder, self.controllers)
        self.api = self.plane.api
        self.kubectl = self.plane.kubectl
        Names(self.api, sandbox.ADDRESS)
        self.kubelet = self.start_node(folder)

    @staticmethod
    def why_not():
        """What is missing, or None."""
        return sandbox.why_not() or control_plane.why_not()

    @staticmethod
    def enter():
        """Into the namespaces; returns the folder for the cluster's files."""
        return sandbox.enter()

    def start_node(self, folder):
        return Kubelet(self.api, sandbox.Network(), folder, sandbox.ADDRESS, {IMAGE: Image(PATH)}, self.plane.certificate)

    @contextlib.contextmanager
    def namespace(self, name):
        """Where pods must be as harmless as the `restricted` policy of Kubernetes asks. With the last pod it is gone."""
        labels = {"pod-security.kubernetes.io/enforce": "restricted"}
        self.api.call("POST", "/api/v1/namespaces", {"kind": "Namespace", "metadata": {"name": name, "labels": labels}})
        self.wait("service account", lambda: self.api.find(f"/api/v1/namespaces/{name}/serviceaccounts/default"))
        try:
            yield name
        except BaseException:
            print(self.state(), flush=True)
            self.kubectl("delete", "namespace", name, "--wait=false")
            raise
        self.kubectl("delete", "namespace", name, "--wait=false")
        self.wait(f"the end of namespace {name}", lambda: self.api.find(f"/api/v1/namespaces/{name}") is None)
        self.expect_nothing_left(name)

    def wait(self, what, ready, seconds=120):
        """What `ready` returns once that is true. It is asked less often as time passes: each question takes the server time."""
        began = time.monotonic()
        end = began + seconds
        while not (found := ready()):
            expect(not self.kubelet.problems, "\n".join(self.kubelet.problems))
            if time.monotonic() > end:
                raise AssertionError(f"no {what} within {seconds} s\n{self.state()}")  # which starts kubectl
            time.sleep(min(0.5, max(0.05, (time.monotonic() - began) / 20)))
        return found

    def expect_nothing_left(self, namespace):
        """Of the pods of this one; where no other has pods, nothing at all."""
        self.wait(f"end of all pods of {namespace}", lambda: namespace not in self.kubelet.living(), 60)
        if self.kubelet.living():
            return
        left = run("ip", "netns", "list").split()
        expect(not left, f"network namespaces are left: {left}")
        expect(not self.programs(), f"processes are left: {self.programs()}")

    def programs(self):
        """Those of `our_programs` that run anywhere on the machine of the cluster."""
        found = []
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                program = os.readlink(entry / "exe")
            except OSError:
                continue
            if pathlib.Path(program).name.startswith(self.our_programs):
                found.append((entry.name, program))
        return found

    def pods(self, namespace):
        """By name."""
        return {pod["metadata"]["name"]: pod for pod in self.api.get(f"/api/v1/namespaces/{namespace}/pods")["items"]}

    def ran(self, namespace):
        """All pods that this namespace has had."""
        return [pod for pod in self.kubelet.pods.values() if pod.namespace == namespace]

    def find(self, kind, namespace, name):
        group = {"job": "batch/v1", "jobset": "jobset.x-k8s.io/v1alpha2", "trainjob": "trainer.kubeflow.org/v1alpha1"}[kind]
        return self.api.find(f"/apis/{group}/namespaces/{namespace}/{kind}s/{name}")

    def condition(self, kind, namespace, name):
        """Complete or Failed, and the reason; None while it runs."""
        for one in self.find(kind, namespace, name).get("status", {}).get("conditions", ()):
            if one["type"] in ("Complete", "Completed", "Failed") and one["status"] == "True":
                return one["type"].replace("Completed", "Complete"), one.get("reason", "")
        return None

    def state(self):
        """For messages: what there is, and the last words of each pod."""
        shown = [self.kubectl("get", "pods,jobs,jobsets,trainjobs", "-A", check=False),
                 self.kubectl("get", "events", "-A", check=False)[-3000:]]
        return "\n".join([*shown, *self.last_words()])

    def last_words(self):
        """Of each pod that is there."""
        return [f"--- {pod.namespace}/{pod.name} ({pod.processes()})\n{pod.log.read_text(errors='replace')[-1500:]}"
                for pod in self.kubelet.pods.values() if pod.is_alive()]


def json_lines(text):
    """The JSON of each line that has some."""
    return [json.loads(line[line.index("{"):]) for line in text.splitlines() if "{" in line and line.endswith("}")]


def main_of(tests_of, kind=Cluster):
    """Makes a cluster of this kind, and calls each test_* method of `tests_of(cluster)`, or those named on the command line."""
    missing = kind.why_not()
    if missing:
        print(f"skipped: {missing}")
        return sandbox.SKIPPED
    folder = kind.enter()
    began = time.monotonic()
    cluster = kind(folder)
    print(f"the cluster is ready after {time.monotonic() - began:.1f} s", flush=True)
    return cases.run(cases.chosen(cases.methods(tests_of(cluster)), sys.argv[1:]))
