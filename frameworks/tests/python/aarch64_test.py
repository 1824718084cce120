"""The wheel for ARM64 in a bare Debian 12 of that processor, which qemu runs: installed by pip, as root and as a user. PyTorch is
libtorch alone, that which the wheel was built with. Tells how long each step took.
"""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

import ranks
import wheels
from bare_systems import BUILT_WITH, KEPT, PROGRAMS, check_data_tools, check_pool, check_training, users
from debian_system import Failed, install_system, why_no_system
from emulation import aarch64

SITE = ranks.ROOT / "build/peers/portable-aarch64/site-packages"  # of scripts/portable.sh
PACKAGES = ["python3", "python3-venv", "libcurl4"]
# What the package and the programs need, for pip without a network.
PLATFORM = ["--python-version", "3.11", "--platform", "manylinux_2_28_aarch64", "--platform", "manylinux_2_27_aarch64"]
NEEDED = ["cloudpickle==3.1.2", "numpy==2.3.5"]


def skip(why):
    print(f"skipped: {why}", flush=True)
    sys.exit(ranks.peer_python.SKIPPED)


def check(inside):
    machine = inside.run("uname", "-m").strip()
    if machine != "aarch64":
        raise Failed(f"the system is of {machine}")
    inside.timed("a virtual environment", "python3", "-m", "venv", "/mnt/venv")
    inside.timed("pip install", "pip", "install", "-q", "--no-index", "--find-links", "/wheels", "xoe", "numpy")
    inside.run("xoe", "--version")
    check_data_tools(inside)
    check_pool(inside)
    package = inside.run("python", "-c", "import xoe; print(xoe.__path__[0])").strip()
    for program in (["/programs/through_c.py", package], ["/programs/ranks_and_images.py", "/mnt/images"]):
        said = inside.timed(pathlib.Path(program[0]).stem, "xoe", "run", "-np", 2, "python", *program)
        print("  " + said.splitlines()[-1], flush=True)
    check_training(inside, BUILT_WITH, PYTHONPATH="/torch")
    check_training(inside, "")


def main():
    if why := why_no_system():
        skip(why)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was mounted and registered goes
    find = f"source {ranks.ROOT}/scripts/lib.sh && find_python 3.11"  # Debian 12's
    python = subprocess.run(["bash", "-c", find], capture_output=True, text=True, check=False).stdout.strip()
    if not python:
        skip("no Python 3.11 with its headers is here, for the wheel")
    os.environ["XOE_PYTHON"] = python
    possible = subprocess.run(
        [ranks.ROOT / "scripts/wheel.sh", "--aarch64", "--check"], capture_output=True, text=True, check=False
    )
    if possible.returncode != 0:
        skip(possible.stderr.strip())
    with tempfile.TemporaryDirectory(prefix="xoe-aarch64-") as name, aarch64() as reason:
        if reason or (reason := install_system(KEPT / "bookworm-arm64", "bookworm", PACKAGES, "arm64")):
            skip(reason)
        scratch = pathlib.Path(name)
        scratch.chmod(0o755)
        house = scratch / "wheels"
        house.mkdir()
        wheel = wheels.fitting(wheels.made(house, "--aarch64"), python)
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB", flush=True)
        if not (house / wheel.name).exists():
            shutil.copy(wheel, house)
        download = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "-q",
            "--no-deps",
            "--only-binary=:all:",
            *PLATFORM,
            "-d",
            house,
            *NEEDED,
        ]
        subprocess.run(download, check=True)
        mounts = {str(house): "/wheels", str(PROGRAMS): "/programs", str(SITE): "/torch"}
        for inside, who in users(KEPT / "bookworm-arm64", scratch, "aarch64", mounts):
            print(f"Debian 12 for ARM64, by qemu, as {who}", flush=True)
            check(inside)


main()
