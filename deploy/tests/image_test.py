"""The image of deploy/docker: built on a system that debootstrap makes, and run by a Docker daemon of this test's own.

  XOE_BUILD_DIR=... image_test.py

Needs root, Debian's docker.io and debootstrap, a mirror of Debian, and PyTorch in build/peers/data-pytorch; else it says what is
missing and exits 77. The wheel is the one that scripts/wheel.sh makes. The image is built in this machine's network; containers run
in a network name space of their own.
"""

import json
import os
import pathlib
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "core/tests/net"), str(ROOT / "frameworks/tests/python")]

import wheels
from debian_system import install_system, mirror
from docker_daemon import Docker, why_not

SKIPPED = 77
BASE, IMAGE = "xoe-test-base", "xoe-test"
WITH_MORE, WITH_R, OTHER_BASE, ONTO = "xoe-test-more", "xoe-test-r", "xoe-test-trixie", "xoe-test-onto"
KEPT = ROOT / "build" / "peers" / "systems" / "bookworm-bare"
KEPT_OTHER = ROOT / "build" / "peers" / "systems" / "trixie-pip"
TORCH = (ROOT / "build" / "peers" / "data-pytorch" / "lib" / "python3.11" / "site-packages").resolve()
IN_NAMESPACE = "--in-namespace"  # this program again, in a network of its own
MB = 10**6
LARGEST = 150 * MB  # what the image may add to its base
TEMPORARY = "--tmpfs=/tmp"  # PyTorch asks for a temporary folder
TRAIN = ("python", "-m", "xoe.examples.mnist", "--epochs", "1", "--target", "0.5")
# As strict as a pod of Pod Security's level "restricted" is.
STRICT = ("--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges", "-v", f"{TORCH}:/opt/torch:ro",
          "-e", "PYTHONPATH=/opt/torch", "-e", "PYTHONDONTWRITEBYTECODE=1")


def missing():
    """What keeps this from being tested, or None."""
    if reason := why_not():
        return reason
    for program in ("debootstrap", "unshare", "ip"):
        if shutil.which(program) is None:
            return f"{program} is not there (scripts/setup.sh --with net installs it)"
    if not (TORCH / "torch").is_dir():
        return f"no PyTorch in {TORCH}"
    if not os.path.ismount("/"):
        return "the root of this system is no mount point, and dockerd cannot import images there"
    return None if mirror() else "apt knows no mirror of Debian"


def context(folder):
    """What .dockerignore lets through of this tree, and wheels that need no index."""
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True,
                            check=True).stdout
    subprocess.run(["tar", "-C", str(ROOT), "--null", "-T", "-", "-cf", f"{folder}/tree.tar"], input=listed, check=True)
    tree = folder / "context"
    house = tree / "build" / "wheels"
    house.mkdir(parents=True)
    subprocess.run(["tar", "-C", str(tree), "-xf", f"{folder}/tree.tar"], check=True)
    made = folder / "wheels"
    made.mkdir()
    every = subprocess.run([ROOT / "scripts/wheel.sh", "--all", "--check"], capture_output=True, check=False).returncode == 0
    found = wheels.made(made, *(["--all"] if every else []))
    for wheel in {wheels.fitting(found, "/usr/bin/python3"), *(one for one in found if "-abi3-" in one.name)}:
        shutil.copy(wheel, house)
    subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", house, "cloudpickle==3.1.2"], check=True)
    return tree


def make_image(docker, tree, name, file, **arguments):
    words = [word for key, value in {"PIP_NO_INDEX": 1, **arguments}.items() for word in ("--build-arg", f"{key}={value}")]
    command = docker.command("build", "--network=host", "-t", name, "-f", f"deploy/docker/{file}", *words, ".")
    done = subprocess.run(command, cwd=tree, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                          env=os.environ | {"DOCKER_BUILDKIT": "0"})
    assert done.returncode == 0, done.stdout[-3000:]


def build(docker, tree):
    started = time.monotonic()
    make_image(docker, tree, IMAGE, "Dockerfile", BASE=BASE)
    base, image = (int(docker.call("image", "inspect", "-f", "{{.Size}}", name)) for name in (BASE, IMAGE))
    print(f"built in {time.monotonic() - started:.0f} s: {image / MB:.0f} MB, of which {base / MB:.0f} MB is the base", flush=True)
    assert image - base < LARGEST, (base, image)


def build_with_mpi_and_r(docker, tree):
    make_image(docker, tree, WITH_MORE, "Dockerfile", BASE=BASE, PACKAGES="openmpi-bin r-cran-reticulate libpython3.11")


def build_for_r(docker, tree):
    make_image(docker, tree, WITH_R, "Dockerfile.r", BASE=IMAGE)


def build_onto_another_python(docker, tree):
    """On a system whose Python is a later one, as NVIDIA's images have it."""
    if not list((tree / "build/wheels").glob("*-abi3-*.whl")):
        print("  left out: no Python from 3.12 on is here, to make the wheel for it", flush=True)
        return
    if reason := install_system(KEPT_OTHER, "trixie", ["python3", "python3-pip"]):
        print(f"  left out: {reason}", flush=True)
        return
    docker.import_folder(KEPT_OTHER, OTHER_BASE)
    make_image(docker, tree, ONTO, "Dockerfile.onto", BASE=OTHER_BASE)
    said = docker.call("run", "--rm", "--network=none", ONTO, "xoe", "run", "-np", "2", "python3", "-c", "import sys, xoe; print(sys.version)")
    assert said.count("3.13") == 2, said


def sections_of(recipe):
    """{name: text} of a recipe of Apptainer; "" is its head."""
    parts = re.split(r"^%(\w+).*\n", recipe, flags=re.MULTILINE)
    return {"": parts[0]} | dict(zip(parts[1::2], parts[2::2], strict=True))


def follow_the_recipe(docker, tree):
    """The steps of Apptainer's recipe, in a container: Apptainer itself may not be here."""
    recipe = sections_of((tree / "deploy/apptainer/xoe.def").read_text())
    arguments = dict(line.strip().split("=", 1) for line in recipe["arguments"].splitlines() if line.strip())
    steps = "set -e\n" + recipe["post"] + recipe["environment"] + recipe["test"]
    steps = re.sub(r"\{\{ (\w+) \}\}", lambda name: arguments[name[1]], steps)
    docker.call("create", "--name=recipe", "--network=host", "-e", "PIP_NO_INDEX=1", BASE, "sh", "-c", steps)
    for line in recipe["files"].split("\n"):
        if line.strip():
            source, target = line.split()
            docker.call("cp", tree / source, f"recipe:{target}")
    done = subprocess.run(docker.command("start", "-a", "recipe"), capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "backend gloo loads" in done.stdout, done.stdout[-2000:] + done.stderr[-2000:]
    docker.call("rm", "recipe")


class Containers:
    def __init__(self, docker, folder):
        self.docker, self.folder = docker, folder
        self.secret = folder / "secret"
        self.secret.write_text(secrets.token_hex(32))
        self.secret.chmod(0o444)

    def run(self, *words, expected=(0,)):
        return self.docker.call("run", "--rm", *words, expected=expected, timeout=300)

    def start(self, name, *words):
        self.docker.call("run", "-d", f"--name={name}", *words)

    def log(self, name):
        return subprocess.run(self.docker.command("logs", name), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=True).stdout

    def await_lines(self, name, part, count):
        """Until so many lines of its log have this part."""
        end = time.monotonic() + 60
        while sum(part in line for line in self.log(name).splitlines()) < count:
            assert time.monotonic() < end, self.log(name)
            time.sleep(0.05)

    def wait(self, *names, expected=0):
        """The logs of these containers, which have ended as expected."""
        logs = []
        for name in names:
            code = int(self.docker.call("wait", name, timeout=300))
            logs.append(self.log(name))
            assert code == expected, f"{name}: exit code {code}\n{logs[-1]}"
        for name in names:
            self.docker.call("rm", "-f", name)
        return logs

    def findings(self, *words, command=("xoe", "doctor", "--json")):
        """By id. 1: a problem was found."""
        return {one["id"]: one for one in json.loads(self.run(*words, IMAGE, *command, expected=(0, 1)))["findings"]}


def expect(found, key, state, part):
    assert found[key]["state"] == state and part in found[key]["what"], found[key]


def it_runs_as_a_user(containers):
    assert containers.run(IMAGE, "id", "-u").strip() == "65532"
    assert "container" in containers.run(IMAGE, expected=(0, 1))  # the doctor, unless it is told otherwise
    said = containers.run(IMAGE, "sh", "-c", "touch /opt/xoe/x 2>&1; command -v gcc git ssh; true")
    assert said.count("\n") == 1 and "Permission denied" in said, said


def the_doctor_names_what_is_too_small(containers):
    found = containers.findings("--network=bridge", "--cpus=1", "--memory=600m", "-e", "PET_NPROC_PER_NODE=2", "-e",
                                "KUBERNETES_SERVICE_HOST=10.96.0.1", *STRICT)
    expect(found, "memory.shm", "warning", "64 MiB")
    assert "emptyDir: {medium: Memory, sizeLimit: 8Gi}" in found["memory.shm"]["manifest"]
    expect(found, "container.cpu", "warning", "2 ranks share 1 processor")
    expect(found, "container.memory", "warning", "300 MiB for each of 2 ranks")
    expect(found, "container.files", "warning", "the root is read-only, and /tmp cannot be written")
    expect(found, "container.calls", "ok", "")
    expect(found, "container.user", "ok", "65532")
    found = containers.findings("--shm-size=2g", TEMPORARY, "-e", "HOME=/tmp", *STRICT)
    assert "container.leader" not in found
    for key in ("memory.shm", "container.cpu", "container.memory", "container.files", "xoe.shm", "xoe.gloo", "python.torch"):
        assert found[key]["state"] == "ok", found[key]


def one_container_trains(containers):
    """Two ranks, with 64 MiB of /dev/shm, and no other folder to write to than /tmp."""
    said = containers.run(*STRICT, TEMPORARY, IMAGE, "xoe", "run", "-np", "2", *TRAIN)
    print("  " + said.strip().splitlines()[-1], flush=True)


def it_stops_when_it_is_told(containers):
    containers.start("stopped", *STRICT, IMAGE, "xoe", "run", "-np", "2", "sh", "-c", "echo up; exec sleep 1000")
    containers.await_lines("stopped", "up", 2)
    started = time.monotonic()
    containers.docker.call("stop", "-t", "60", "stopped")
    assert time.monotonic() - started < 30
    containers.wait("stopped", expected=143)


def member(containers, rank, shm=()):
    """Words of `docker run` for one of two containers that form a job."""
    return ["--network=xoe", *shm, *STRICT, TEMPORARY, "-v", f"{containers.secret}:/etc/xoe/secret:ro", "-e",
            "XOE_RENDEZVOUS_SECRET_FILE=/etc/xoe/secret", IMAGE, "xoe", "run", "--rendezvous", "node-0", "--nodes", "2", "--node-rank",
            str(rank), "-np", "1", "--", "sh", "-c", f"echo rank $XOE_RANK of $XOE_SIZE; exec {' '.join(TRAIN)}"]


def two_containers_train(containers):
    """Over a bridge, with an agent in each; the second has Docker's default /dev/shm."""
    for rank, shm in ((1, ()), (0, ("--shm-size=1g",))):
        containers.start(f"node-{rank}", *member(containers, rank, shm))
    logs = containers.wait("node-0", "node-1")
    for rank, log in enumerate(logs):
        assert f"[{rank}] rank {rank} of 2" in log, log
    found = [line for log in logs for line in log.splitlines() if "accuracy" in line]
    assert found, logs
    print("  " + found[-1], flush=True)


def mpi_starts_ranks_and_r_calls_them(containers):
    words = (*STRICT, TEMPORARY, "-e", "HOME=/tmp", "-v", f"{ROOT}/examples/r:/job:ro", WITH_MORE)
    size = "import xoe.torch as hvd; hvd.init(); print('rank', hvd.rank(), 'of', hvd.size()); hvd.shutdown()"
    said = containers.run(*words, "mpirun", "--oversubscribe", "-np", "2", "python", "-c", size)
    assert "rank 0 of 2" in said and "rank 1 of 2" in said, said
    said = containers.run(*words, "xoe", "run", "-np", "2", "Rscript", "/job/reticulate_sum.R")
    for rank in range(2):
        assert f"rank {rank} of 2: the sum is 3" in said, said


def the_image_for_r_needs_no_python(containers):
    """Its package alone: the regression is the one of a single rank."""
    words = ("--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges", TEMPORARY, "-v", f"{ROOT}/examples/r:/job:ro", WITH_R)
    estimates = set()
    for ranks in ("1", "2"):
        said = containers.run(*words, "xoe", "run", "-np", ranks, "Rscript", "/job/regression.R")
        found = re.search(r"ranks?: (.*); loss .*largest difference from glm\(\): (\S+)", said)
        assert found and float(found[2]) < 1e-9, said
        estimates.add(found[1])
    assert len(estimates) == 1, estimates


def the_doctor_finds_lost_packets(containers):
    """The way to another container takes less than its interface, and no router says so."""
    containers.start("node-0", "--network=xoe", IMAGE, "sleep", "1000")
    words = ("--network=xoe", "-e", "PET_MASTER_ADDR=node-0")
    found = containers.findings(*words)
    expect(found, "container.leader", "ok", "host node-0 of rank 0 (PET_MASTER_ADDR) is ")
    expect(found, "container.mtu", "ok", "they reach node-0")
    link = containers.docker.call("exec", "node-0", "cat", "/sys/class/net/eth0/iflink").strip()
    listed = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
    port = re.search(rf"^{link}: ([^:@]+)", listed, re.MULTILINE)[1]
    subprocess.run(["ip", "link", "set", port, "mtu", "1400"], check=True)
    expect(containers.findings(*words), "container.mtu", "problem", "packets of 1500 bytes, the MTU of eth0, are lost")
    containers.docker.call("rm", "-f", "node-0")
    expect(containers.findings(*words), "container.leader", "warning", "host node-0 of rank 0 (PET_MASTER_ADDR) has no address")


def run_in_namespace(folder):
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    docker = Docker(folder, options=())
    try:
        if not docker.wait_until_up():
            print(f"skipped: dockerd does not run here with a bridge: {docker.why()}")
            return SKIPPED
        docker.call("network", "create", "xoe")
        containers = Containers(docker, pathlib.Path(folder))
        for test in (it_runs_as_a_user, the_doctor_names_what_is_too_small, one_container_trains, it_stops_when_it_is_told,
                     two_containers_train, mpi_starts_ranks_and_r_calls_them, the_image_for_r_needs_no_python, the_doctor_finds_lost_packets):
            print(test.__name__, flush=True)
            test(containers)
    finally:
        for container in docker.call("ps", "-aq").split():
            docker.call("rm", "-f", container)
        docker.end()
    return 0


def main():
    if sys.argv[1:2] == [IN_NAMESPACE]:
        return run_in_namespace(sys.argv[2])
    if reason := missing() or install_system(KEPT, "bookworm"):
        print(f"skipped: {reason}")
        return SKIPPED
    with tempfile.TemporaryDirectory(prefix="xoe-image-") as folder:
        docker = Docker(folder)
        try:
            if not docker.wait_until_up():
                print(f"skipped: dockerd does not run here: {docker.why()}")
                return SKIPPED
            docker.import_folder(KEPT, BASE)
            tree = context(pathlib.Path(folder))
            for step in (build, build_with_mpi_and_r, build_for_r, build_onto_another_python, follow_the_recipe):
                print(step.__name__, flush=True)
                step(docker, tree)
        finally:
            docker.end()
        words = ["unshare", "--net", "--mount", sys.executable, __file__, IN_NAMESPACE, folder]
        return subprocess.run(words, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
