#!/usr/bin/env python3
"""The bundle of scripts/gpu_bundle.sh and the check in it, rehearsed in a system like a machine with a GPU that is lent for minutes: another
distribution than the one that made the bundle, Python 3.12 with PyTorch and JAX, a compiler, no network. The check keeps its budget, takes
its parts in order, and says what it left out and why. Skipped without root, debootstrap or that Python (frameworks/tests/python/install_versions.sh).

    gpu_rehearsal_test.py [BUNDLE]       an existing bundle instead of a new one
"""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "core/tests/net"), str(ROOT / "measure/gpu")]
import parts
from debian_system import Inside, install_system, why_no_system

SKIPPED = 77
SUITE = "trixie"
PACKAGES = ("g++", "libbz2-1.0", "libffi8", "liblzma5", "libreadline8t64", "libsqlite3-0", "libssl3t64", "openssl")
ENVIRONMENT = ROOT / "build" / "peers" / "python-3.12"
ALL = [part.name for part in parts.PARTS]


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIPPED)


def machine(scratch):
    """The system, with a folder of its own at /mnt."""
    if why := why_no_system():
        skip(why)
    if not (ENVIRONMENT / "installed").exists():
        skip("no Python 3.12 with PyTorch and JAX; frameworks/tests/python/install_versions.sh installs it")
    root = ROOT / "build" / "peers" / "systems" / "gpu-machine"
    if why := install_system(root, SUITE, PACKAGES):
        skip(why)
    base = subprocess.run(
        [ENVIRONMENT / "bin" / "python", "-c", "import sys; print(sys.base_prefix)"], capture_output=True, text=True, check=True
    ).stdout.strip()
    mounts = {base: base, str(ENVIRONMENT): str(ENVIRONMENT)}
    return Inside(root, scratch, "0:0", mounts, {"PATH": f"{ENVIRONMENT}/bin:/usr/bin:/bin"}, network=False)


def check(inside, name, budget, *options):
    """Results of a check within this budget, which it must keep."""
    started = time.monotonic()
    said = inside.run("/mnt/xoe-gpu/scripts/gpu_check.sh", "--rehearse", "--budget", budget, *options, f"/mnt/{name}")
    seconds = time.monotonic() - started
    print(said, flush=True)
    assert seconds <= budget, f"--budget {budget} took {seconds:.0f} s"
    results = json.loads((inside.folder / name / "results.json").read_text())
    page = (inside.folder / name / "gpu.md").read_text()
    assert "no figures of a GPU" in page
    assert list(results["parts"]) == ALL, results["parts"].keys()
    for part in parts.PARTS:
        found = results["parts"][part.name]
        print(f"  {part.name}: {found['status']} after {found['seconds']} s {found['reason']}", flush=True)
        assert found["status"] == "passed" or found["reason"], found
        assert f"| {part.title} | {found['status']} | " in page
    begins = [word.split()[1] for word in said.splitlines() if word.startswith("xoe: ") and (" begins: " in word or " is skipped: " in word)]
    assert begins[: len(ALL)] == ALL, begins
    return results


def states(results, *names):
    return {name: results["parts"][name]["status"] for name in names}


def main():
    with tempfile.TemporaryDirectory(prefix="xoe-gpu-") as name:
        scratch = pathlib.Path(name)
        inside = machine(scratch)
        inside.variables["HOME"] = "/tmp"
        bundle = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else scratch / "xoe-gpu.tar.gz"
        if len(sys.argv) == 1:
            subprocess.run([ROOT / "scripts" / "gpu_bundle.sh", bundle], check=True)
        subprocess.run(["tar", "xf", bundle, "-C", scratch], check=True)
        # Those of the first minutes, whole; the build is far from its end.
        short = check(inside, "short", 120)
        assert states(short, *ALL[:3]) == dict.fromkeys(ALL[:3], "passed"), states(short, *ALL[:3])
        shutil.rmtree(scratch / "xoe-gpu/build/gpu/build", ignore_errors=True)
        whole = check(inside, "whole", 480)
        assert states(whole, *ALL[:5]) == dict.fromkeys(ALL[:5], "passed"), states(whole, *ALL[:5])
        assert "failed" not in states(whole, *ALL).values(), states(whole, *ALL)


if __name__ == "__main__":
    main()
