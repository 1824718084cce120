"""The wheels of this tree, for tests of them."""

import os
import subprocess

import ranks


def made(folder, *options):
    """What scripts/wheel.sh makes with these options, in `folder`; with XOE_TEST_WHEEL=built, what it made in build/wheels before."""
    if os.environ.get("XOE_TEST_WHEEL") == "built":
        folder = ranks.ROOT / "build" / "wheels"
    else:
        subprocess.run([str(ranks.ROOT / "scripts" / "wheel.sh"), *options, str(folder)], check=True)
    processor = "aarch64" if "--aarch64" in options else "x86_64"
    return sorted(wheel for wheel in folder.glob("*.whl") if wheel.stem.endswith((f"_{processor}", "-any")))


def fitting(made, python):
    """Of these wheels, xoe's for this Python."""
    code = "import sys; print('cp%d%d' % sys.version_info[:2])"
    tag = subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    own = [wheel for wheel in made if wheel.name.startswith("xoe-") and (f"-{tag}-" in wheel.name or "-abi3-" in wheel.name)]
    assert own, f"none of {[wheel.name for wheel in made]} is for {tag}"
    return min(own, key=lambda wheel: "-abi3-" in wheel.name)
