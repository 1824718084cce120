"""Cgroups are not gone with the namespaces of a test: a process outside removes them, and looks for what else may be left.

Of cgroups version 1 only: in version 2 a group that has processes of its own, as that of a container has, gives its children no
controllers.
"""

import contextlib
import os
import pathlib
import select
import signal
import sys
import time

CGROUPS = pathlib.Path("/sys/fs/cgroup")
VARIABLE = "CLUSTER_CGROUP"  # the name of the test's own; every program of the cluster has it
_PLACES = ("/run/cluster", "/run/netns/cni-", "/var/lib/kubelet/")


def why_not():
    """What is missing for cgroups of a test's own, or None."""
    for controller in ("cpu", "cpuset", "devices", "freezer", "memory", "pids"):
        if not os.access(CGROUPS / controller / "cgroup.procs", os.W_OK):
            return f"no {CGROUPS / controller} of cgroups version 1 that can be written"
    return None


def groups(name):
    """This cgroup in each hierarchy."""
    return [path.parent / name for path in CGROUPS.glob("*/cgroup.procs") if not path.parent.is_symlink()]


def folders(name):
    """Of this cgroup and all below, those inside first; os.walk() does not mind that some go meanwhile."""
    return [pathlib.Path(folder) for group in groups(name) for folder, _, _ in os.walk(group, topdown=False)]


def guard():
    """Returns in a child, which makes the cluster; this process ends with the child's exit code, or with 1 where something is left.

    When this process is killed, its supervisor kills the child, too, and removes the cgroups.
    """
    reader, writer = os.pipe()
    supervisor = os.fork()
    if supervisor != 0:
        os.close(reader)
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(supervisor, 0)[1]) % 256)
    os.close(writer)
    os.setsid()
    os.environ[VARIABLE] = name = f"xoe-node-{os.getpid()}"
    for group in groups(name):
        group.mkdir()
    before = _places()
    child = os.fork()
    if child == 0:
        os.close(reader)
        return
    ended = os.pidfd_open(child)
    ready, _, _ = select.select([reader, ended], [], [])
    if ended not in ready:
        os.kill(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    left = _remove(name) + sorted(_places() - before)
    for what in left:
        print(f"FAILED: left on the machine: {what}", flush=True)
    os._exit(1 if left else code % 256)


def _places():
    """Mounts and network namespaces of a cluster that can be seen from outside."""
    mounts = {line.split()[4] for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines()}
    spaces = {str(path) for path in pathlib.Path("/run/netns").glob("cni-*")}
    return spaces | {path for path in mounts if path.startswith(_PLACES)}


def _processes(name):
    """Those in the cgroup, and the programs of the cluster."""
    inside = set()
    for folder in folders(name):
        with contextlib.suppress(OSError):
            inside.update(map(int, (folder / "cgroup.procs").read_text().split()))
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"{VARIABLE}={name}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                inside.add(int(entry.name))
    return inside


def _remove(name):
    """The cgroup, once its processes have ended; returns what does not go."""
    end = time.monotonic() + 30
    while (living := _processes(name)) and time.monotonic() < end:
        time.sleep(0.1)
    for folder in folders(name):
        with contextlib.suppress(OSError):
            folder.rmdir()
    return [f"process {number}" for number in living] + [str(group) for group in groups(name) if group.exists()]
