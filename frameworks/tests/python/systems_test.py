"""The wheels in bare systems of other distributions, made by debootstrap, without a compiler: installed by pip, as root and
as a user, they train on two ranks. Tells how long each step took. Arguments: the systems (all).

Interpreters and PyTorch are those of requirements/versions.txt; where they are not installed, frameworks/tests/python/install_versions.sh
does it. The systems are kept in build/peers/systems.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from typing import NamedTuple

import ranks
import wheels
from bare_systems import KEPT, PROGRAMS, check_data_tools, check_pool, check_training, users
from debian_system import Failed, install_system, why_no_system

COMPILERS = ("gcc", "g++", "cc", "c++", "clang", "cmake", "ninja")
# One of them has libcurl, which `xoe pool vsphere` loads.
LIBRARIES = {
    "bookworm": ["libffi8"],
    "trixie": ["libffi8", "libcurl4t64", "python3"],
    "forky": ["libffi8"],
    "bullseye": ["python3"],
}


class System(NamedTuple):
    suite: str  # of Debian
    versions: str  # the environment whose interpreter and PyTorch it gets, by its Python; empty: it has only its own Python


# The oldest glibc has no Python that the package is for: there the C library is called. So it is where another OpenSSL than the
# pool's own comes with libcurl.
SYSTEMS = {
    "oldest-glibc": System("bullseye", ""),
    "other-openssl": System("trixie", ""),
    "oldest-python": System("bookworm", "3.10"),
    "newest-python": System("trixie", "3.13"),
    "newest-glibc": System("forky", "3.13"),
}


def findings_of(inside, **variables):
    """The doctor's on Xoe and Python, by id."""
    report = json.loads(inside.timed("xoe doctor", "xoe", "doctor", "--only", "xoe,python", "--json", **variables))
    return {finding["id"]: finding for finding in report["findings"]}


def check_package(inside, python, newest):
    """Installs the wheels and trains."""
    site = {"PYTHONPATH": "/torch"}
    inside.timed("a virtual environment", python, "-m", "venv", "/mnt/venv")
    packages = ("xoe", "xoe-horovod")
    inside.timed("pip install", "pip", "install", "-q", "--no-index", "--find-links", "/wheels", *packages)
    inside.run("xoe", "--version")
    check_data_tools(inside)
    check_pool(inside)
    said = inside.timed("training", "xoe", "run", "-np", 2, "python", "-m", "xoe.examples.mnist", "--target", 0.9, **site)
    print("  " + said.strip().splitlines()[-1], flush=True)
    findings = findings_of(inside, **site)
    for name in ("xoe.shm", "xoe.gloo", "xoe.nccl", "python.package", "python.torch", *(["python.backend"] if newest else [])):
        if findings[name]["state"] != "ok":
            raise Failed(f"xoe doctor: {findings[name]}")
    for order in ("torch-first", "xoe-first"):
        inside.timed(f"together, {order}", "xoe", "run", "-np", 2, "python", "/programs/together.py", order, **site)
    torch = inside.run("python", "-c", "import torch.version; print(torch.version.__version__)", **site).split()[-1]
    check_training(inside, torch.partition("+")[0], **site)
    check_training(inside, "")
    horovod = "import horovod.torch as hvd; hvd.init(); assert hvd.size() == 2"
    inside.run("horovodrun", "-np", 2, "python", "-c", horovod, **site)


def check_library(inside, wheel):
    """The launcher, the tools and the C library, from an unpacked wheel."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(inside.folder)
    package = inside.folder / "xoe"
    for program in (package / "bin").iterdir():
        program.chmod(0o755)
    xoe = "/mnt/xoe/bin/xoe"
    report = json.loads(inside.run(xoe, "doctor", "--only", "xoe", "--json"))
    wrong = [one for one in report["findings"] if one["id"] in ("xoe.shm", "xoe.gloo", "xoe.nccl") and one["state"] != "ok"]
    if wrong:
        raise Failed(f"xoe doctor: {wrong}")
    check_data_tools(inside, xoe)
    check_training(inside, "", xoe)
    check_pool(inside, xoe)
    print(inside.timed("allreduce", xoe, "run", "-np", 2, "python3", "/programs/through_c.py", "/mnt/xoe"), end="", flush=True)


def check_system(name, made, scratch):
    system = SYSTEMS[name]
    root = KEPT / system.suite
    if reason := install_system(root, system.suite, LIBRARIES[system.suite]):
        print(f"skipped {system.suite}: {reason}", flush=True)
        return False
    wheelhouse = str(made[0].parent)
    mounts = {wheelhouse: "/wheels", str(PROGRAMS): "/programs"}
    python = None
    if system.versions:
        environment = ranks.ROOT / "build" / "peers" / f"python-{system.versions}"
        if not (environment / "installed").exists():
            print(
                f"skipped {name}: no Python {system.versions} with PyTorch; frameworks/tests/python/install_versions.sh installs it"
            )
            return False
        base = subprocess.run(
            [environment / "bin" / "python", "-c", "import sys; print(sys.base_prefix)"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        python = f"{base}/bin/python{system.versions}"
        mounts |= {base: base, str(environment.resolve() / f"lib/python{system.versions}/site-packages"): "/torch"}
    for inside, who in users(root, scratch, name, mounts):
        found = inside.run("sh", "-c", f"for tool in {' '.join(COMPILERS)}; do command -v $tool; done; true")
        if found:
            raise Failed(f"a compiler is in {system.suite}: {found}")
        print(f"{name} ({system.suite}{', Python ' + system.versions if system.versions else ''}), as {who}", flush=True)
        if python:
            check_package(inside, python, newest=system.versions != "3.10")
        else:
            check_library(inside, next(wheel for wheel in made if "abi3" in wheel.name))
    return True


def check_uvx(house, scratch):
    """On this machine, in environments that uv makes and forgets: no installation."""
    uv = ranks.ROOT / ".venv/bin/uv"
    variables = {**os.environ, "UV_CACHE_DIR": str(scratch / "uv-cache"), "UV_TOOL_DIR": str(scratch / "uv-tools")}
    command = [uv, "tool", "run", "--offline", "--no-index", "--find-links", house]
    train = ["--from", "xoe", "xoe", "run", "-np", "2", "python", "-c", "import xoe; print(xoe.__version__)"]
    for words in (["xoe", "--version"], train):
        done = subprocess.run([*command, *words], env=variables, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Failed(f"uvx {' '.join(words)}: {done.stdout}{done.stderr}")
    print("uvx xoe run: two ranks", flush=True)


def main():
    if why := why_no_system():
        print(f"skipped: {why}")
        sys.exit(ranks.peer_python.SKIPPED)
    pythons = subprocess.run(
        [ranks.ROOT / "scripts" / "wheel.sh", "--all", "--check"], capture_output=True, text=True, check=False
    )
    if pythons.returncode != 0:
        print(f"skipped: {pythons.stderr.strip()}")
        sys.exit(ranks.peer_python.SKIPPED)
    failed, tried = [], 0
    with tempfile.TemporaryDirectory(prefix="xoe-systems-") as name:
        scratch = pathlib.Path(name)
        scratch.chmod(0o755)
        house = scratch / "wheels"
        house.mkdir()
        for wheel in wheels.made(house, "--all"):
            if not (house / wheel.name).exists():
                shutil.copy(wheel, house)
        made = sorted(house.glob("*.whl"))
        for wheel in made:
            print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB", flush=True)
        # What the package depends on, for pip without a network.
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", house, "cloudpickle==3.1.2"], check=True
        )
        try:
            check_uvx(house, scratch)
        except Failed as error:
            print(f"FAILED: {error}", flush=True)
            failed.append("uvx")
        for system in sys.argv[1:] or SYSTEMS:
            try:
                tried += check_system(system, made, scratch)
            except Failed as error:
                print(f"FAILED: {system}: {error}", flush=True)
                failed.append(system)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")
    sys.exit(0 if tried else ranks.peer_python.SKIPPED)


main()
