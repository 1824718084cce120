"""One pod of a pretended node: its sandbox, its container from the first start to the last end, and what is reported of it."""

import contextlib
import datetime
import os
import pathlib
import re
import shutil
import signal
import subprocess
import threading
import time

import container
import values
from api import ApiError

POLL = 0.03
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 10.0  # before a container's second restart; a kubelet's are 10 s and 5 minutes


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def amount(text):
    """Bytes of a quantity such as 64Mi."""
    number, unit = re.fullmatch(r"(\d+)([KMGT]?)i?", text).groups()
    return int(number) << 10 * " KMGT".index(unit or " ")


def restarts_after(pod, spec, code):
    """Whether the kubelet starts this container again in its place: its own rules, then its policy, then the pod's."""
    for rule in spec.get("restartPolicyRules") or ():
        codes = rule["exitCodes"]
        if (code in codes["values"]) == (codes["operator"] == "In"):
            return rule["action"] == "Restart"
    policy = spec.get("restartPolicy") or pod["spec"].get("restartPolicy", "Always")
    return policy == "Always" or (policy == "OnFailure" and code != 0)


class Pod(threading.Thread):
    """Runs until the pod has been deleted. `node` has api, network, images, folder, address and claims."""

    def __init__(self, node, pod):
        super().__init__(daemon=True)
        self.node = node
        self.object = pod
        meta = pod["metadata"]
        self.name, self.namespace, self.uid = meta["name"], meta["namespace"], meta["uid"]
        self.path = f"/api/v1/namespaces/{self.namespace}/pods/{self.name}"
        self.spec = pod["spec"]["containers"][0]
        self.folder = node.folder / "pods" / self.uid
        self.log = node.folder / "logs" / f"{self.namespace}.{self.name}.{self.uid}"
        self.log.touch()
        self.removed = threading.Event()  # the object is gone from the API
        self.space = self.address = self.process = None
        self.init = None  # the process id of the container's first process, as this machine sees it
        self.restarts = 0
        self.past = None  # how the container ended last
        self.ended = False
        self.problem = None

    # What the API says now.
    def grace(self):
        """Seconds from the wish to delete the pod to SIGKILL; None while that is not wished."""
        if self.removed.is_set():
            return 0
        meta = self.object["metadata"]
        return meta.get("deletionGracePeriodSeconds", 0) if "deletionTimestamp" in meta else None

    def wait_unless_deleted(self, seconds):
        end = time.monotonic() + seconds
        while self.grace() is None and time.monotonic() < end:
            time.sleep(POLL)
        return self.grace() is None

    def report(self, phase, state):
        running = "running" in state
        over = phase in ("Succeeded", "Failed")
        flag = "True" if running else "False"
        status = {"name": self.spec["name"], "image": self.spec["image"], "imageID": self.spec["image"], "ready": running,
                  "started": running, "restartCount": self.restarts, "state": state,
                  "lastState": {"terminated": self.past} if self.past and not over else {}}
        body = {"phase": phase, "hostIP": self.node.address, "startTime": self.object["status"].get("startTime") or now(),
                "containerStatuses": [status],
                "conditions": [{"type": kind, "status": flag, "lastTransitionTime": now()}
                               for kind in ("Ready", "ContainersReady")] + [{"type": "Initialized", "status": "True"}]}
        if self.address:
            body |= {"podIP": self.address, "podIPs": [{"ip": self.address}]}
        try:
            self.node.api.patch(f"{self.path}/status", {"metadata": {"uid": self.uid}, "status": body})
        except ApiError as error:
            if error.code not in (404, 409):  # removed, or another pod of this name
                raise

    def remove(self):
        """The last word of a kubelet to a pod that is to be deleted."""
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0, "preconditions": {"uid": self.uid}}
        try:
            self.node.api.call("DELETE", self.path, options)
        except ApiError as error:
            if error.code not in (404, 409):
                raise

    def run(self):
        try:
            self.live()
        except Exception as error:  # so that a fault of this program is seen where a test looks
            self.problem = f"{self.namespace}/{self.name}: {type(error).__name__}: {error}"
            self.node.problems.append(self.problem)
            self.report("Failed", {"waiting": {"reason": "PretendedKubeletFailed", "message": self.problem}})
        finally:
            self.clear()
        while self.grace() is None:
            time.sleep(POLL)
        if not self.removed.is_set():
            self.remove()

    def live(self):
        self.refuse_what_is_missing()
        self.report("Pending", {"waiting": {"reason": "ContainerCreating"}})
        self.space, self.address = self.node.network.attach()
        image = self.find_image()
        mounts = image and self.make_volumes()
        while mounts is not None and self.grace() is None:
            ended = self.run_once(image, mounts)
            if self.grace() is not None or not restarts_after(self.object, self.spec, ended["exitCode"]):
                break
            self.past = ended
            self.restarts += 1
            if self.restarts > 1:
                self.report("Running", {"waiting": {"reason": "CrashLoopBackOff"}})
                self.wait_unless_deleted(min(FIRST_PAUSE * 2 ** (self.restarts - 2), LONGEST_PAUSE))
        else:
            ended = self.past or {"exitCode": 137, "reason": "ContainerStatusUnknown", "finishedAt": now()}
        self.ended = True
        self.report("Succeeded" if ended["exitCode"] == 0 else "Failed", {"terminated": ended})

    def find_image(self):
        """None where there is none: a kubelet tries for ever."""
        name = self.spec["image"]
        if name not in self.node.images:
            for reason, seconds in (("ErrImagePull", 2), ("ImagePullBackOff", float("inf"))):
                self.report("Pending", {"waiting": {"reason": reason, "message": f"no image {name}"}})
                self.wait_unless_deleted(seconds)
        return self.node.images.get(name)

    def refuse_what_is_missing(self):
        spec = self.object["spec"]
        if len(spec["containers"]) != 1 or spec.get("initContainers") or spec.get("hostNetwork"):
            raise values.Unsupported("more than one container, or the host's network")

    def make_volumes(self):
        """The container's mounts; None where the pod was deleted before they could be made."""
        sources = {}
        for volume in self.object["spec"].get("volumes") or ():
            folder = self.folder / "volumes" / volume["name"]
            while (made := self.make_volume(volume, folder)) is None:
                if not self.wait_unless_deleted(1):
                    return None
            sources[volume["name"]] = made
        return [container.Mount(os.path.join(sources[mount["name"]], mount.get("subPath", "")).rstrip("/"),
                                mount["mountPath"], mount.get("readOnly", False))
                for mount in self.spec.get("volumeMounts") or ()]

    def make_volume(self, volume, folder):
        group = (self.object["spec"].get("securityContext") or {}).get("fsGroup", 0)
        if "persistentVolumeClaim" in volume:
            folder = self.node.claims / self.namespace / volume["persistentVolumeClaim"]["claimName"]
            folder.mkdir(parents=True, exist_ok=True)
        elif "emptyDir" in volume:
            folder.mkdir(parents=True, exist_ok=True)
            if volume["emptyDir"].get("medium") == "Memory":
                size = volume["emptyDir"].get("sizeLimit")
                options = f"size={amount(size)}" if size else "size=50%"
                subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], check=True)
        else:
            try:
                files = values.files_of(self.node.api, self.object, volume)
            except values.Missing:
                return None
            if files is None:
                raise values.Unsupported(f"the volume {volume['name']}: {', '.join(volume)}")
            folder.mkdir(parents=True, exist_ok=True)
            for path, data in files.items():
                (folder / path).write_bytes(data)
                (folder / path).chmod(0o440 if group else 0o444)
                os.chown(folder / path, 0, group)
            return folder
        os.chown(folder, 0, group)
        folder.chmod(0o2777)
        return folder

    def identity(self, image):
        pods, own = self.object["spec"].get("securityContext") or {}, self.spec.get("securityContext") or {}
        user = own.get("runAsUser", pods.get("runAsUser", image.user))
        group = own.get("runAsGroup", pods.get("runAsGroup", pods.get("fsGroup", user)))
        if own.get("runAsNonRoot", pods.get("runAsNonRoot")) and user == 0:
            raise values.Unsupported("root where the manifest forbids it")
        return container.Identity(user, group, not own.get("allowPrivilegeEscalation", True),
                                  "ALL" in (own.get("capabilities") or {}).get("drop", ()))

    def etc_files(self):
        spec, folder = self.object["spec"], self.folder / "etc"
        host, sub = spec.get("hostname", self.name), spec.get("subdomain")
        long = f"{host}.{sub}.{self.namespace}.svc.cluster.local\t" if sub else ""
        domains = f"{self.namespace}.svc.cluster.local svc.cluster.local cluster.local"
        texts = {"hosts": f"127.0.0.1\tlocalhost\n{self.address}\t{long}{host}\n", "hostname": f"{host}\n",
                 "resolv.conf": f"search {domains}\nnameserver {self.node.address}\noptions ndots:5\n"}
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (folder / name).write_text(text)
        return host, {name: folder / name for name in texts}

    def run_once(self, image, mounts):
        """From the container's start to its end, which it returns in the form of a `terminated` state."""
        host, files = self.etc_files()
        variables = {"PATH": image.path, "HOME": "/", "HOSTNAME": host, "KUBERNETES_SERVICE_HOST": self.node.address}
        variables |= values.variables_of(self.node.api, self.object, self.spec, self.address)
        words = (self.spec.get("command") or list(image.entrypoint)) + (self.spec.get("args") or [])
        layer = self.folder / "layer"
        layer.mkdir(parents=True, exist_ok=True)
        ready, ready_end = os.pipe()
        own = self.spec.get("securityContext") or {}
        script = self.folder / "start.sh"
        script.write_text(container.start_script(container.Setup(
            layer, files, [*image.mounts, *mounts], image.opened, self.identity(image), own.get("readOnlyRootFilesystem", False), variables,
            self.spec.get("workingDir", "/"), [values.expand(word, variables) for word in words], host, ready_end)))
        # The shell's child is the first process of the container; the shell ends with its exit code, or 128 + its signal.
        start = ["nsenter", f"--net=/run/netns/{self.space}", "unshare", "--mount", "--uts", "--ipc", "--pid", "sh", "-c",
                 'bash "$0"; exit $?', script]
        began = now()
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(start, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=[ready_end])
        os.close(ready_end)
        with os.fdopen(ready, "rb") as pipe:
            started = pipe.read(len(container.READY)) == container.READY
        if started:
            self.init = int(pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text() or 0) or None
            self.report("Running", {"running": {"startedAt": began}})
        code = self.wait()
        self.init = None
        if not started:
            raise RuntimeError(f"the container could not be made: {self.log.read_text()[-2000:]}")
        reason = "Completed" if code == 0 else "Error"
        return {"exitCode": code, "reason": reason, "startedAt": began, "finishedAt": now()}

    def wait(self):
        """Until the container has ended; ends it when the pod is deleted. Its exit code."""
        limit = None
        while self.process.poll() is None:
            grace = self.grace()
            if grace is not None:
                if limit is None:
                    self.signal(signal.SIGTERM)
                limit = min(limit or float("inf"), time.monotonic() + grace) if limit is None or grace == 0 else limit
                if time.monotonic() >= limit:
                    self.signal(signal.SIGKILL)
            time.sleep(POLL)
        return self.process.returncode

    def signal(self, number):
        if self.init is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.init, number)

    def processes(self):
        """{process id: command line} of all that run in the container."""
        if self.init is None:
            return {}
        try:
            space = os.readlink(f"/proc/{self.init}/ns/pid")
        except OSError:
            return {}
        found = {}
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if os.readlink(entry / "ns/pid") == space:
                    found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                pass
        return found

    def clear(self):
        if self.process is not None and self.process.poll() is None:
            self.signal(signal.SIGKILL)
            self.process.wait()
        if self.space is not None:
            self.node.network.detach(self.space)
        for folder in (self.folder / "volumes").glob("*"):
            if os.path.ismount(folder):
                subprocess.run(["umount", folder], check=True)
        shutil.rmtree(self.folder, ignore_errors=True)
