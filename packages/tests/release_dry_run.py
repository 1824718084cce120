"""scripts/release.sh --dry-run of a clone of what is committed: every file that it promises is there, and holds what it should.

A machine without one of the Pythons, or without a Docker daemon, makes fewer of them, and the script must say so.
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
VERSION = re.search(r"project\(xoe VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
IN_SOURCES = ("PKG-INFO", "CMakeLists.txt", "packages/build_backend.py", "core/base/text.cc", "frameworks/python/xoe/__init__.py")
IN_WHEEL = ("xoe/bin/xoe", "xoe/bin/xoe-train", "xoe/bin/xoe-trainer", "xoe/bin/xoe-bench-trainer", "xoe/bin/xoe-pool", "xoe/lib/libxoe.so.0")


def fail(what, said=""):
    sys.exit(f"FAILED: {what}\n{said[-4000:]}")


def clone(folder):
    """It makes its own tools and .venv (uv has the downloads), but for the slowest part."""
    subprocess.run(["git", "clone", "-q", ROOT, folder], check=True)
    for name in ("portable", "portable-aarch64"):
        portable = ROOT / "build/peers" / name
        if (portable / "installed").exists():
            shutil.copytree(portable, folder / "build/peers" / name, symlinks=True)


def check_names(made, said):
    names = {path.name for path in made.iterdir()}
    wanted = {f"xoe-{VERSION}.tar.gz", f"xoe-{VERSION}-docs.tar.gz", "SHA256SUMS"}
    processors = [processor for processor in ("x86_64", "aarch64") if f"left out: wheels for {processor}" not in said]
    wanted |= {f"xoe-{VERSION}-{processor}.cdx.json" for processor in processors}
    if "left out: image" not in said:
        wanted.add(f"xoe-{VERSION}-image.tar.gz")
    if missing := wanted - names:
        fail(f"no {', '.join(sorted(missing))} among {', '.join(sorted(names))}", said)
    wheels = {processor: sorted(path.name for path in made.glob(f"xoe-{VERSION}-cp*_{processor}.whl")) for processor in processors}
    for processor, those in wheels.items():
        if len(those) < (1 if f"left out: wheels of all Pythons for {processor}" in said else 3):
            fail(f"wheels for {processor}: {those}", said)
    packages = [name for name in names if name.endswith(".conda")]
    if len(packages) != (0 if "left out: conda packages: no channel answers" in said else len(wheels["x86_64"])):
        fail(f"conda packages: {packages}, of {wheels}", said)
    if not any(re.fullmatch(rf"xoe_{VERSION}[-_].*\.deb", name) for name in names):
        fail(f"no Debian package among {names}")


def check_processors(made):
    """The wheels of both processors hold the same files, but for a module's name."""
    held = {}
    for wheel in made.glob(f"xoe-{VERSION}-cp*.whl"):
        python, processor = re.search(r"-(cp\d+)-.*_(x86_64|aarch64)\.whl$", wheel.name).groups()
        with zipfile.ZipFile(wheel) as archive:
            held.setdefault(python, {})[processor] = {name.replace(f"-{processor}-", "-") for name in archive.namelist()}
    for python, files in held.items():
        if len(files) == 2 and files["x86_64"] != files["aarch64"]:
            fail(f"the wheels for {python} differ in {sorted(files['x86_64'] ^ files['aarch64'])}")


def check_contents(made):
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=made, check=True)
    with tarfile.open(made / f"xoe-{VERSION}.tar.gz") as archive:
        held = set(archive.getnames())
        if missing := [name for name in IN_SOURCES if f"xoe-{VERSION}/{name}" not in held]:
            fail(f"the sources lack {missing}")
    for wheel in made.glob(f"xoe-{VERSION}-*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            held = set(archive.namelist())
            if missing := [name for name in IN_WHEEL if name not in held]:
                fail(f"{wheel.name} lacks {missing}")
            if b"/app.js" not in archive.read("xoe/bin/xoe-pool"):
                fail(f"the pool of {wheel.name} has no web page")
    with tarfile.open(made / f"xoe-{VERSION}-docs.tar.gz") as archive:
        if "html/index.html" not in archive.getnames():
            fail("the site has no first page")


def main():
    with tempfile.TemporaryDirectory(prefix="xoe-release-") as name:
        tree = pathlib.Path(name) / "xoe"
        clone(tree)
        made = tree / "build" / "made"
        done = subprocess.run(
            [tree / "scripts/release.sh", "--dry-run", made], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        if done.returncode != 0:
            fail(f"exit code {done.returncode}", done.stdout)
        check_names(made, done.stdout)
        check_contents(made)
        check_processors(made)
        for line in done.stdout.splitlines():
            if "left out" in line:
                print(line)
        for path in sorted(made.iterdir()):
            print(f"{path.stat().st_size / 1e6:8.1f} MB  {path.name}")


main()
