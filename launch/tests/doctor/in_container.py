#!/usr/bin/env python3
"""xoe doctor inside real containers of Docker, whose daemon and image this test makes and removes.

  in_container.py XOE_DOCTOR

Needs root and Debian's docker.io; else it says what is missing and exits 77. The image holds the program and the libraries
that it loads; the daemon has no network, and keeps all it writes in the test's folder.
"""

import json
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "core/tests/net"))

from docker_daemon import Docker, why_not

SKIPPED = 77
MIB = 1 << 20


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
    expect(found, "container.memory", "warning", limit=256 * MIB)
    expect(found, "container.calls", "ok", refused=[])


def as_a_pod_that_is_too_strict(docker):
    """No writable folder, a user without a name, a filter that refuses a call and kills for another."""
    calls = [{"names": ["membarrier"], "action": "SCMP_ACT_ERRNO"}, {"names": ["pidfd_open"], "action": "SCMP_ACT_KILL_PROCESS"}]
    profile = pathlib.Path(docker.folder, "seccomp.json")
    profile.write_text(json.dumps({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": calls}))
    found = examine(docker, "--read-only", "--user=1234", "--cap-drop=ALL", f"--security-opt=seccomp={profile}",
                    "-e", "KUBERNETES_SERVICE_HOST=10.96.0.1", "-e", "NVIDIA_VISIBLE_DEVICES=0")
    expect(found, "virtual.container", "note", container="Kubernetes")
    expect(found, "container.calls", "problem")
    refused = {one["call"]: one for one in found["container.calls"]["details"]["refused"]}
    assert refused["pidfd_open"]["needed"] and "Bad system call" in refused["pidfd_open"]["error"], refused
    assert not refused["membarrier"]["needed"] and len(refused) == 2, refused
    expect(found, "container.files", "warning", read_only_root=True, temporary_writable=False)
    assert "emptyDir: {}" in found["container.files"]["manifest"], found["container.files"]
    expect(found, "container.user", "note", uid=1234, named=False)
    expect(found, "container.gpu", "problem", wanted="0")


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
            for test in (as_docker_starts_them, with_limits, as_a_pod_that_is_too_strict):
                print(test.__name__, flush=True)
                test(docker)
        finally:
            docker.end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
