"""The machine of a pretended cluster: namespaces of its own, in which a test is alone, with a bridge for the pods.

Processes, mounts, addresses and files of the test are gone when it ends, however it ends.
"""

import os
import pathlib
import shutil
import subprocess
import sys

SKIPPED = 77
ADDRESS = "10.77.0.1"  # of the machine, on the bridge
FOLDER = pathlib.Path("/run/cluster")
BRIDGE = "cni0"
_LINK_ADDRESS = "02:00:0a:4d:00:01"  # else it changes with the pods' links, and pods do not reach it for half a minute
_INSIDE = "--inside"


def why_not():
    """What is missing for a pretended cluster, or None."""
    if os.geteuid() != 0:
        return "it needs root, for namespaces"
    for program, package in (("ip", "iproute2"), ("unshare", "util-linux"), ("setpriv", "util-linux"), ("openssl", "openssl"),
                             ("etcd", "etcd-server")):
        if shutil.which(program) is None:
            return f"{program} is not there (Debian: {package})"
    probe = subprocess.run(["unshare", "--net", "--mount", "--pid", "--fork", "mount", "-t", "tmpfs", "tmpfs", "/run"],
                           capture_output=True, text=True, check=False)
    return None if probe.returncode == 0 else f"namespaces cannot be made here: {probe.stderr.strip()}"


def ip(*lines):
    done = subprocess.run(["ip", "-batch", "-"], input="\n".join(lines), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"ip: {done.stderr.strip()}: {lines}")


def cover(path):
    """What is written below this folder from now on is gone with the sandbox."""
    layer = pathlib.Path("/run/covered", path[1:])
    for name in ("upper", "work"):
        (layer / name).mkdir(parents=True)
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", f"lowerdir={path},upperdir={layer}/upper,workdir={layer}/work", path],
                   check=True)


def is_inside():
    """Whether enter() has started this program."""
    return _INSIDE in sys.argv


def enter():
    """Starts this program again in namespaces of its own, unless that has been done; returns the folder for its files."""
    if not is_inside():
        spaces = ["--mount", "--net", "--uts", "--ipc", "--pid"]
        words = ["unshare", *spaces, "--fork", "--kill-child", "--mount-proc", sys.executable, *sys.argv, _INSIDE]
        os.execvp(words[0], words)
    sys.argv.remove(_INSIDE)
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run"], check=True)
    cover("/tmp")
    ip("link set lo up", f"link add {BRIDGE} address {_LINK_ADDRESS} type bridge", f"addr add {ADDRESS}/16 dev {BRIDGE}",
       f"link set {BRIDGE} up")
    FOLDER.mkdir()
    return FOLDER


class Network:
    """One network namespace with an address for each pod."""

    def __init__(self):
        self.last = 1

    def attach(self):
        """Makes one; returns its name and its address."""
        self.last += 1
        number = self.last
        space, link = f"pod{number}", f"veth{number}"
        address = f"10.77.{number // 250}.{number % 250 + 2}"
        ip(f"netns add {space}")
        ip(f"link add {link} type veth peer name eth0 netns {space}", f"link set {link} master {BRIDGE} up")
        subprocess.run(["ip", "-n", space, "-batch", "-"], check=True, capture_output=True, text=True,
                       input=f"link set lo up\naddr add {address}/16 dev eth0\nlink set eth0 up\nroute add default via {ADDRESS}\n")
        return space, address

    def detach(self, space):
        subprocess.run(["ip", "netns", "del", space], check=False, capture_output=True)
