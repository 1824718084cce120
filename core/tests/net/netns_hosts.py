"""Hosts that are network namespaces of this machine, made and driven by netns_hosts.sh."""

import os
import pathlib
import shutil
import subprocess
import time

SCRIPT = pathlib.Path(__file__).with_name("netns_hosts.sh")
SKIPPED = 77


def why_not():
    """What is missing for this test, or None."""
    if os.geteuid() != 0:
        return "it needs root, for network namespaces"
    for program, package in (("ip", "iproute2"), ("/usr/sbin/sshd", "openssh-server"), ("ssh", "openssh-client"),
                             ("nsenter", "util-linux")):
        if shutil.which(program) is None:
            return f"{program} is not there (Debian: {package})"
    probe = subprocess.run(["unshare", "--net", "--mount", "--uts", "true"], capture_output=True, text=True, check=False)
    return None if probe.returncode == 0 else f"namespaces cannot be made here: {probe.stderr.strip()}"


class Hosts:
    """Network namespaces with these names, of which each plays a host."""

    def __init__(self, folder, names=("nodeA", "nodeB", "nodeC")):
        self.folder = folder
        self.names = names
        try:
            self.call("up", *self.names)
        except RuntimeError:
            self.call("down")
            raise

    def call(self, *words):
        done = subprocess.run([SCRIPT, self.folder, *words], capture_output=True, text=True, timeout=120, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"netns_hosts.sh {' '.join(words)}: {done.stderr}")
        return done.stdout

    def command(self, node, *words):
        return [SCRIPT, self.folder, "exec", node, *words]

    def left(self):
        """Processes on the hosts besides those of sshd, as (node, command line). After a cut sshd waits on for its client."""
        found = []
        for node in self.names:
            for pid in self.call("pids", node).split():
                try:
                    words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
                except OSError:
                    continue
                if words and not words.startswith("sshd:"):
                    found.append((node, words))
        return found

    def all_gone(self, seconds=8.0):
        end = time.monotonic() + seconds
        while self.left():
            if time.monotonic() > end:
                return False
            time.sleep(0.05)
        return True
