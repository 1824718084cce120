"""The Python package with the oldest Python and PyTorch that it is for, with some between, and with the newest: those
of requirements/versions.txt that are installed. Arguments: the versions of Python (all).
"""

import os
import pathlib
import subprocess
import sys
import time

import ranks

TESTS = (
    ("collectives", "2"),
    ("optimizer", "2"),
    ("elastic", "2"),
    ("horovod_shim",),
    ("torch_distributed", "2"),
    ("torch_distributed_training", "2"),
    ("torch_distributed_buckets", "2"),
    ("programs",),
)
OPTIONS = {
    "Python_EXECUTABLE": None,
    "XOE_UNITY": "ON",
    "XOE_WITH_TORCH": "OFF",
    "XOE_BUILD_BENCH": "OFF",
    "XOE_BUILD_TESTS": "OFF",
}


def installed():
    """Versions of Python with the interpreters of their environments, oldest first."""
    lines = (ranks.ROOT / "requirements" / "versions.txt").read_text().splitlines()
    versions = [line.split()[0] for line in lines if line and line[0] != "#"]
    found = {version: ranks.ROOT / "build" / "peers" / f"python-{version}" / "bin" / "python" for version in versions}
    return {version: python for version, python in found.items() if (python.parent.parent / "installed").exists()}


def build(version, python):
    """A build folder whose package imports with this Python."""
    folder = ranks.ROOT / "build" / f"python-{version}"  # as deep as the other build folders, for the compiler cache
    options = [f"-D{name}={value or python}" for name, value in OPTIONS.items()]
    if not (folder / "CMakeCache.txt").exists():
        quiet(["cmake", "--preset", "release", "-B", folder, *options])
    quiet(["cmake", "--build", folder, "--target", "xoe_wheel"])
    return folder


def quiet(command):
    """Runs a command, of which only a failure is shown."""
    done = subprocess.run(command, cwd=ranks.ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}")


def main():
    environments = installed()
    if not environments:
        print("skipped: no other versions of PyTorch; frameworks/tests/python/install_versions.sh installs them")
        sys.exit(ranks.peer_python.SKIPPED)
    failed = []
    for version in sys.argv[1:] or environments:
        python = environments[version]
        variables = {"XOE_BUILD_DIR": str(build(version, python)), "XOE_PEERS_PYTHON": str(python)}
        says = "import torch; print(torch.__version__)"
        torch = subprocess.run([python, "-c", says], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
        for name, *sizes in TESTS:
            started = time.monotonic()
            script = pathlib.Path(__file__).with_name(f"{name}_test.py")
            done = subprocess.run(
                [sys.executable, script, *sizes],
                env={**os.environ, **variables},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            print(
                f"Python {version}, PyTorch {torch}, {name}: {done.returncode} after {time.monotonic() - started:.0f} s",
                flush=True,
            )
            if done.returncode != 0:
                failed.append(f"{name} with Python {version}")
                print(done.stdout, flush=True)
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)


main()
