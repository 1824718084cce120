#!/usr/bin/env python3
"""xoe doctor inside real containers of Docker, whose daemon and image this test makes and removes.

  in_container.py XOE_DOCTOR

Needs root and Debian's docker.io; else it says what is missing and exits 77. The image holds the program and the libraries
that it loads; the daemon has no network, and keeps all it writes in the test's folder.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time

SKIPPED = 77
MIB = 1 << 20


def why_not():
    """What is missing for this test, or None."""
    if os.geteuid() != 0:
        return "it needs root, to run dockerd"
    for program, package in (("docker", "docker.io"), ("dockerd", "docker.io"), ("containerd", "containerd")):
        if shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin") is None:
            return f"{program} is not there (Debian: {package})"
    return None


class Docker:
    """A daemon of this test's own."""

    def __init__(self, folder):
        self.folder = folder
        self.socket = f"unix://{folder}/docker.sock"
        self.log = open(f"{folder}/log", "w+", encoding="utf-8")
        words = ["dockerd", "--bridge=none", "--iptables=false", "--ip6tables=false", f"--data-root={folder}/data",
                 f"--exec-root={folder}/exec", f"--pidfile={folder}/pid", "-H", self.socket]
        path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
        self.daemon = subprocess.Popen(words, stdout=self.log, stderr=self.log, env=os.environ | {"PATH": path})

    def call(self, *words, expected=(0,)):
        done = subprocess.run(["docker", "-H", self.socket, *words], capture_output=True, text=True, timeout=120, check=False)
        if done.returncode not in expected:
            raise AssertionError(f"docker {' '.join(words)}: exit code {done.returncode}: {done.stderr}")
        return done.stdout

    def wait_until_up(self):
        """False where it ended: not every machine lets one run."""
        end = time.monotonic() + 60
        while self.daemon.poll() is None and time.monotonic() < end:
            if subprocess.run(["docker", "-H", self.socket, "info"], capture_output=True, check=False).returncode == 0:
                return True
            time.sleep(0.1)
        return False

    def why(self):
        self.log.seek(0)
        return self.log.read()[-500:]

    def end(self):
        self.daemon.terminate()
        try:
            self.daemon.wait(30)
        except subprocess.TimeoutExpired:
            self.daemon.kill()
            self.daemon.wait()


def make_image(docker, doctor, folder):
    """Program and libraries at the paths that they have here."""
    listed = subprocess.run(["ldd", doctor], capture_output=True, text=True, check=True).stdout.split()
    with tarfile.open(f"{folder}/image.tar", "w", dereference=True) as tar:
        for path in [word for word in listed if word.startswith("/")]:
            tar.add(path)
        tar.add(doctor, "xoe-doctor")
    docker.call("import", f"{folder}/image.tar", "xoe-doctor-test")


def examine(docker, *options):
    # 1: with nothing installed there, no engine joins hosts, which the doctor calls a problem.
    out = docker.call("run", "--rm", "--network=none", *options, "xoe-doctor-test", "/xoe-doctor", "--json", expected=(0, 1))
    return {finding["id"]: finding for finding in json.loads(out)["findings"]}


def expect(found, key, state, **details):
    finding = found[key]
    assert finding["state"] == state, finding
    for name, value in details.items():
        assert finding["details"][name] == value, (name, value, finding)


def as_docker_starts_them(docker):
    found = examine(docker)
    expect(found, "virtual.container", "note", container="Docker")
    expect(found, "memory.shm", "warning", size=64 * MIB, docker_default=True)
    assert "--shm-size" in found["memory.shm"]["fix"]


def with_limits(docker):
    found = examine(docker, "--shm-size=2g", "--memory=256m", "--cpus=0.5", "--pids-limit=50", "--ulimit=nofile=300:300")
    expect(found, "virtual.container", "note", container="Docker")
    expect(found, "memory.shm", "ok", size=2048 * MIB)
    expect(found, "memory.cgroup", "warning", limit=256 * MIB)
    expect(found, "cpu.quota", "warning", processors=0.5)
    expect(found, "process.count", "warning", limit=50)
    expect(found, "memory.nofile", "note", soft=300, hard=300)


def main():
    doctor = pathlib.Path(sys.argv[1]).resolve()
    reason = why_not()
    if reason:
        print(f"skipped: {reason}")
        return SKIPPED
    with tempfile.TemporaryDirectory(prefix="xoe-docker-") as folder:
        docker = Docker(folder)
        try:
            if not docker.wait_until_up():
                print(f"skipped: dockerd does not run here: {docker.why()}")
                return SKIPPED
            if not os.path.ismount("/"):
                print("skipped: the root of this system is no mount point, and dockerd cannot import images there")
                return SKIPPED
            make_image(docker, doctor, folder)
            for test in (as_docker_starts_them, with_limits):
                print(test.__name__, flush=True)
                test(docker)
        finally:
            docker.end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
