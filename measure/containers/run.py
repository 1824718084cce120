#!/usr/bin/env python3
"""Containers beside bare processes: what they cost a training on this machine.

  measure/containers/run.py [--rounds 10] [--model resnet18] [--sizes 4,64K,1M,16M]

Needs root and Debian's docker.io and debootstrap. A daemon of this program's own runs containers, in a network name space of its
own, so that nothing of this machine's network changes. The image is Debian's smallest system with the libraries that Xoe's
programs load (debootstrap; kept in build/peers/containers); build and .venv are mounted into it. Three places take turns in each
round: bare processes, containers on the host's network, containers on Docker's bridge. Measured are

- the start: one job of two ranks, from nothing to its end. In a container this includes `docker run`;
- an allreduce between two processes, or between one process in each of two containers, over TCP (Gloo);
- images/s of two ranks over the same, and of two ranks in one container, which share memory.

Measure on a quiet machine: beside other programs the scheduler gives a container, whose processes are one group, less than as many
bare processes. `xoe bench compare` judges what came out, and writes build/bench/containers/containers.html.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "core/tests/net"))

from debian_system import install_system
from docker_daemon import Docker, why_not
from places import Places, add_options, compare, save

KEPT = ROOT / "build" / "peers" / "containers"
IMAGE = "xoe-bench"
NODES = ("nodeA", "nodeB")
IN_NAMESPACE = "--in-namespace"  # this program again, in a network of its own


def missing():
    """What keeps this from being measured, or None."""
    reason = why_not()
    if reason:
        return reason
    for program in ("debootstrap", "unshare", "ip"):
        if shutil.which(program) is None:
            return f"{program} is not there (scripts/setup.sh --with net installs it)"
    return None


def libraries(programs):
    """The Debian packages whose libraries these programs load."""
    found = set()
    for program in programs:
        for word in subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout.split():
            if word.startswith(("/lib", "/usr/lib")):
                path = os.path.realpath(word)
                found.add(path)
                found.add(path.removeprefix("/usr"))
    listed = subprocess.run(["dpkg-query", "-S", *sorted(found)], capture_output=True, text=True, check=False).stdout
    return sorted({line.split(":")[0] for line in listed.splitlines() if ": /" in line})


class Containers(Places):
    """Bare processes, and containers on two networks."""

    names = ("bare", "host network", "bridge network")

    def __init__(self, options, docker, scratch):
        super().__init__(options, scratch)
        self.docker = docker
        # The checkout, and what links of it lead to.
        folders = {ROOT, (ROOT / ".venv").resolve(), options.build.resolve()}
        self.mounts = [word for folder in sorted(folders) for word in ("-v", f"{folder}:{folder}:ro")]
        self.mounts += ["-v", f"{scratch}:{scratch}"]
        self.agents = {"bare": self.agent("agent-bare")}

    def container(self, place, *words):
        """Words of `docker run` at this place."""
        network = "host" if place == "host network" else "bridge"
        return self.docker.command("run", "--rm", f"--network={network}", "-e", "OMP_NUM_THREADS=1", *self.mounts, *words)

    def start_nodes(self):
        """Containers that stay, in which agents are started; each place has two."""
        for place in self.names[1:]:
            word = place.split()[0]
            for node in NODES:
                subprocess.run(self.container(place, "-d", "--init", f"--name={word}-{node}", IMAGE, "sleep", "infinity"),
                               check=True, capture_output=True)
            command = " ".join(self.docker.command("exec", "-i"))
            self.agents[place] = self.agent(f"agent-{word}", f'node=$1; shift\nexec {command} "{word}-$node" "$@"')

    def together(self, place, *words):
        self.run_in_one_place(*words, within=() if place == "bare" else self.container(place, IMAGE))

    def apart(self, place, *words):
        self.run_over_network(self.agents[place], *words)


def measure_in_namespace(options):
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    with tempfile.TemporaryDirectory(prefix="xoe-containers-") as scratch:
        docker = Docker(scratch, options=())
        try:
            if not docker.wait_until_up():
                sys.exit(f"error: dockerd does not run here: {docker.why()}")
            docker.import_folder(KEPT / "root", IMAGE)
            bench = Containers(options, docker, scratch)
            bench.start_nodes()
            paths = save(options, *bench.measure())
        finally:
            for container in docker.call("ps", "-q").split():
                docker.call("rm", "-f", container)
            docker.end()
    compare(options, paths, "containers")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser, "containers")
    parser.add_argument(IN_NAMESPACE, action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.in_namespace:
        measure_in_namespace(options)
        return 0
    if reason := missing():
        print(f"not measured: {reason}")
        return 0
    packages = libraries([*(options.build / "bin").glob("xoe*"), *(options.build / "lib").glob("libxoe-*.so")])
    if reason := install_system(KEPT / "root", "bookworm", packages):
        sys.exit(f"error: {reason}")
    words = ["unshare", "--net", "--mount", sys.executable, __file__, *sys.argv[1:], IN_NAMESPACE]
    return subprocess.run(words, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
