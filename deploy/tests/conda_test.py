"""Conda packages of this tree's wheels: scripts/conda.sh builds them, and the solver of conda's newer programs installs one from the
channel that they form.

conda-forge is not asked: a channel of this test's own has what Xoe needs, made of a Python of this machine that can be copied.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "frameworks/tests/python"))

import wheels

SKIPPED = 77
TOOLS = ROOT / "build" / "peers" / "conda" / "bin" / "python"
CODE = "import sys; print('%d.%d' % sys.version_info[:2], sys.base_prefix, sep='\\n')"

# Arguments: the folder that becomes a channel; VERSION=PREFIX of each Python.
MAKE_CHANNEL = """
import pathlib, sys
from rattler_build import assemble_package, collect_files

channel = pathlib.Path(sys.argv[1])
empty = channel / "empty"
empty.mkdir(parents=True)
(empty / "none").touch()
for folder in ("linux-64", "noarch"):
    (channel / folder).mkdir()
left_out = ["**/test/**", "**/__pycache__/**", "**/*.a", "**/idlelib/**", "**/config-*/**"]
for version, prefix in (word.split("=") for word in sys.argv[2:]):
    packages = [path.name for path in pathlib.Path(prefix).glob("lib/python3*/site-packages/*") if not path.name.startswith("pip")]
    others = [f"**/site-packages/{name}{rest}" for name in packages for rest in ("", "/**")]
    files = collect_files(prefix, include_globs=["bin/**", "lib/**"], exclude_globs=left_out + others)
    assemble_package("python", version + ".0", "linux-64", "0", channel / "linux-64", files=files, compression_level=1, detect_prefix=False)
for name, number in (("pip", "23"), ("cloudpickle", "3")):
    assemble_package(name, number, "noarch", "0", channel / "noarch", files_dir=empty, noarch="generic", depends=["python"])
"""

# Argument: the folder. With rattler 0.28 an interpreter that ends as usual crashes now and then.
INDEX = "import asyncio, os, sys; from rattler.index import index_fs; asyncio.run(index_fs(sys.argv[1])); os._exit(0)"

# Arguments: the prefix, then the channels.
INSTALL = """
import asyncio, os, sys
import rattler

async def main():
    prefix, *channels = sys.argv[1:]
    found = await rattler.solve(channels, ["xoe"], platforms=["linux-64", "noarch"], virtual_packages=rattler.VirtualPackage.detect())
    await rattler.install(found, prefix)
    print(*(f"{record.name.normalized} {record.version} {record.build}" for record in found), sep=", ", flush=True)

asyncio.run(main())
os._exit(0)
"""


def copied_pythons():
    """{version: prefix} of the Pythons whose files can be copied: pyenv's, not the system's own."""
    pyenv = pathlib.Path(os.environ.get("PYENV_ROOT", pathlib.Path.home() / ".pyenv"))
    found = {}
    for candidate in sorted(pyenv.glob("versions/3.*/bin/python3")):
        version, prefix = subprocess.run([candidate, "-c", CODE], capture_output=True, text=True, check=True).stdout.split()
        found[version] = prefix
    return found


def wheel_and_pythons(made, pythons):
    """A wheel, the Python to make its package with, and another one to install it for; the wheel for many Pythons first."""
    for wheel in sorted(made, key=lambda path: "-abi3-" not in path.name):
        tag = re.match(r"xoe-[^-]+-cp3(\d+)-", wheel.name)
        if tag and f"3.{tag[1]}" in pythons:
            later = [version for version in pythons if int(version.split(".")[1]) > int(tag[1])]
            return wheel, f"3.{tag[1]}", later[-1] if later and "-abi3-" in wheel.name else f"3.{tag[1]}"
    return None


def run(what, *command, **options):
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options)
    if done.returncode != 0:
        sys.exit(f"FAILED: {what}: exit code {done.returncode}\n{done.stdout[-4000:]}")
    return done.stdout


def main():
    with tempfile.TemporaryDirectory(prefix="xoe-conda-") as name:
        scratch = pathlib.Path(name)
        house = scratch / "wheels"
        house.mkdir()
        every = subprocess.run([ROOT / "scripts/wheel.sh", "--all", "--check"], capture_output=True, check=False).returncode == 0
        made = wheels.made(scratch / "made", *(["--all"] if every else []))
        pythons = copied_pythons()
        chosen = wheel_and_pythons(made, pythons)
        if chosen is None:
            print("skipped: pyenv has no Python that one of the wheels is for")
            return SKIPPED
        wheel, built_for, installed_for = chosen
        os.symlink(wheel, house / wheel.name)
        os.environ["RATTLER_CACHE_DIR"] = str(scratch / "cache")
        run("tools", "bash", "-c", f". {ROOT}/scripts/lib.sh; install_environment conda conda {ROOT}/requirements/conda.txt")
        needed, packages = scratch / "needed", scratch / "packages"
        versions = sorted({built_for, installed_for})
        run("a channel with Python", TOOLS, "-c", MAKE_CHANNEL, needed, *(f"{version}={pythons[version]}" for version in versions))
        run("its index", TOOLS, "-c", INDEX, needed)
        print(run("scripts/conda.sh", ROOT / "scripts/conda.sh", "--channel", f"file://{needed}", house, packages), end="")
        installed = scratch / "installed"
        print(run("installation", TOOLS, "-c", INSTALL, installed, f"file://{packages}", f"file://{needed}"), end="")
        clean = {"PATH": f"{installed}/bin:/usr/bin:/bin", "HOME": str(scratch), "CONDA_PREFIX": str(installed)}
        for words in (("run", "-np", "2", "python", "-c", "import xoe; print(xoe.__file__)"), ("data", "make", "--images", "20", scratch / "images"),
                      ("pool", "--help"), ("doctor", "--only", "xoe")):  # fmt: skip
            said = run(words, installed / "bin/xoe", *words, env=clean)
            if words[0] == "run" and said.count(f"{installed}/lib/python{installed_for}/site-packages/xoe/") != 2:
                sys.exit(f"FAILED: another xoe runs: {said}")
    return 0


sys.exit(main())
