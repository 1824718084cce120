"""A cluster whose one node is real: Kubernetes' scheduler and kubelet, containerd and runc with network plug-ins, in the sandbox.

What they would do to the whole machine stays in the sandbox: folders below /var are covered, the kernel settings that the kubelet asks
for are files mounted over the real ones, and cgroups are below one of the test's own, which leftovers.py removes.
"""

import json
import os
import pathlib
import shutil
import subprocess

import control_plane
import image
import leftovers
import sandbox
from cluster import Cluster, expect

NODE = "node-a"
SETTINGS = {"vm/overcommit_memory": 1, "vm/panic_on_oom": 0, "kernel/panic": 10, "kernel/panic_on_oops": 1,
            "kernel/keys/root_maxkeys": 1000000, "kernel/keys/root_maxbytes": 25000000}
CONTROLLERS = ("node-lifecycle-controller", "taint-eviction-controller", "pod-garbage-collector-controller")
PATH = f"{os.environ['PATH']}:/usr/sbin:/sbin"
CONTAINERD = """version = 2
root = "{folder}/containerd"
[plugins."io.containerd.internal.v1.opt"]
  path = "{folder}/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  restrict_oom_score_adj = true # without CAP_SYS_RESOURCE the kubelet's values are refused
[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "{plugins}"
  conf_dir = "{folder}/networks"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
"""


class SeenPod:
    """What the API server has said of a pod, which it forgets when the pod is replaced."""

    def __init__(self):
        self.object = None
        self.codes = {}  # by container: a restart makes another

    @property
    def name(self):
        return self.object["metadata"]["name"]

    @property
    def namespace(self):
        return self.object["metadata"]["namespace"]

    @property
    def exit_codes(self):
        return list(self.codes.values())

    def observe(self, pod):
        self.object = pod
        for status in pod["status"].get("containerStatuses", ()):
            for state in (status.get("lastState", {}), status.get("state", {})):
                if "terminated" in state:
                    self.codes[state["terminated"].get("containerID")] = state["terminated"]["exitCode"]


class RealNode:
    """Ready once made. `pods`: all that there were, by uid."""

    def __init__(self, plane, folder):
        self.plane = plane
        self.folder = folder
        self.cgroup = os.environ[leftovers.VARIABLE]
        self.pods = {}
        self.trouble = []
        self.cover_machine()
        self.start_containerd()
        plane.start("kube-scheduler", control_plane.PROGRAMS / "kube-scheduler", f"--kubeconfig={plane.kubeconfig}",
                    "--leader-elect=false", "--secure-port=0")
        self.start_kubelet()
        plane.api.follow("/api/v1/pods", self.observe, self.trouble)

    @property
    def problems(self):
        ended = [name for name in ("containerd", "kube-scheduler", "kubelet") if self.plane.running[name].poll() is not None]
        return [*self.trouble, *(f"{name} has ended" for name in ended)]

    def cover_machine(self):
        subprocess.run(["mount", "--make-rshared", "/"], check=True)  # the kubelet's mounts are to reach the containers
        sandbox.cover("/var")
        files = {f"/proc/sys/{name}": f"{value}\n" for name, value in SETTINGS.items()}
        files |= {"/etc/hosts": f"127.0.0.1 localhost\n{sandbox.ADDRESS} {NODE}\n", "/etc/resolv.conf": f"nameserver {sandbox.ADDRESS}\n"}
        for number, (path, text) in enumerate(files.items()):
            file = self.folder / f"covering-{number}"
            file.write_text(text)
            subprocess.run(["mount", "--bind", file, path], check=True)

    def start_containerd(self):
        networks = self.folder / "networks"
        networks.mkdir()
        bridge = {"type": "bridge", "bridge": sandbox.BRIDGE, "isGateway": True, "ipam": {
            "type": "host-local", "ranges": [[{"subnet": "10.77.0.0/16", "gateway": sandbox.ADDRESS}]], "routes": [{"dst": "0.0.0.0/0"}]}}
        (networks / "pods.conflist").write_text(json.dumps({"cniVersion": "1.0.0", "name": "pods", "plugins": [bridge]}))
        config = self.folder / "containerd.toml"
        config.write_text(CONTAINERD.format(folder=self.folder, pause=image.PAUSE, plugins=control_plane.PROGRAMS / "cni"))
        self.plane.start("containerd", "containerd", "--config", config, env=os.environ | {"PATH": PATH})
        self.plane.wait("containerd", lambda: subprocess.run(["ctr", "version"], capture_output=True, check=True))
        archive = self.folder / "images.tar"
        image.write(archive)
        subprocess.run(["ctr", "-n", "k8s.io", "images", "import", archive], check=True, stdout=subprocess.DEVNULL)
        archive.unlink()

    def start_kubelet(self):
        config = self.folder / "kubelet.json"
        certificate, key = map(str, self.plane.certificate)
        config.write_text(json.dumps({
            "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", "failCgroupV1": False, "failSwapOn": False,
            "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock", "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self.cgroup}", "protectKernelDefaults": True, "clusterDNS": [sandbox.ADDRESS],
            "clusterDomain": "cluster.local", "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"}, "tlsCertFile": certificate, "tlsPrivateKeyFile": key,
            "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
            "imageGCHighThresholdPercent": 100, "imageGCLowThresholdPercent": 99}))  # a full disk is no matter of the test
        self.plane.start("kubelet", control_plane.PROGRAMS / "kubelet", f"--config={config}", f"--kubeconfig={self.plane.kubeconfig}",
                         f"--hostname-override={NODE}", f"--node-ip={sandbox.ADDRESS}", env=os.environ | {"PATH": PATH})
        self.plane.wait("kubelet", self.is_ready)

    def is_ready(self):
        node = self.plane.api.get(f"/api/v1/nodes/{NODE}")
        ready = any(one["type"] == "Ready" and one["status"] == "True" for one in node["status"]["conditions"])
        return ready and not node["spec"].get("taints")

    def observe(self, _kind, pod):
        self.pods.setdefault(pod["metadata"]["uid"], SeenPod()).observe(pod)

    def living(self):
        """The namespaces of pods that have a cgroup or a folder."""
        folders = [*leftovers.folders(self.cgroup), *pathlib.Path("/var/lib/kubelet/pods").iterdir()]
        return {self.pods[uid].namespace for uid in {path.name.removeprefix("pod") for path in folders} if uid in self.pods}

    def first_process(self, pod):
        """The process id of the container's first process."""
        container = pod.object["status"]["containerStatuses"][0]["containerID"].removeprefix("containerd://")
        [group] = (path for path in leftovers.folders(self.cgroup) if path.name == container and "pids" in path.parts)
        for number in (group / "cgroup.procs").read_text().split():
            status = pathlib.Path("/proc", number, "status").read_text()
            if status.split("NSpid:")[1].splitlines()[0].split()[-1] == "1":
                return int(number)
        raise AssertionError(f"{pod.name}: no first process")


class RealCluster(Cluster):
    controllers = control_plane.CONTROLLERS + CONTROLLERS
    our_programs = ("xoe", "example_sum", "containerd-shim")

    @staticmethod
    def why_not():
        if missing := Cluster.why_not():
            return missing
        if not (control_plane.PROGRAMS / "kubelet").exists():
            return "kubelet is not there: launch/tests/kubernetes/install.sh builds it"
        for program, package in (("containerd", "containerd"), ("runc", "runc")):
            if shutil.which(program, path=PATH) is None:
                return f"{program} is not there (Debian: {package})"
        return leftovers.why_not()

    @staticmethod
    def enter():
        if not sandbox.is_inside():
            leftovers.guard()
        return sandbox.enter()

    def start_node(self, folder):
        return RealNode(self.plane, folder)

    def expect_nothing_left(self, namespace):
        self.wait("end of all programs of pods", lambda: self.kubelet.living() or not self.programs(), 60)
        super().expect_nothing_left(namespace)
        if self.kubelet.living():
            return
        mounts = [line.split()[4] for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines()]
        left = [path for path in mounts if path.startswith(("/run/containerd/", "/run/netns/cni-", "/var/lib/kubelet/pods/"))]
        expect(not left, f"mounts are left: {left}")

    def last_words(self):
        logs = (self.plane.folder / "kubelet.log").read_text().splitlines()[-20:]
        return [self.kubectl("describe", "pods", "-A", check=False), "--- kubelet", *logs]
