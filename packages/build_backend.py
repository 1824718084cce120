"""The build backend of `pip install .`: scikit-build-core's, behind a look at what this machine lacks for it.

pip asks a backend what it needs before anything is downloaded or compiled, so the answer to a missing header comes in the first
second, all of them at once, with the command that installs them (PEP 517).
"""

import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig

REQUIREMENTS = ["scikit-build-core==1.1.2", "nanobind==3.1.0"]
CMAKE = (3, 25)

# A header of each library that the build cannot do without, and its package in Debian and Ubuntu.
NEEDED = {
    "CLI/CLI.hpp": "libcli11-dev",
    "fmt/format.h": "libfmt-dev",
    "hwy/highway.h": "libhwy-dev",
    "jpeglib.h": "libjpeg62-turbo-dev",
    "nlohmann/json.hpp": "nlohmann-json3-dev",
    "png.h": "libpng-dev",
    "protozero/pbf_reader.hpp": "libprotozero-dev",
    "sodium.h": "libsodium-dev",
    "tl/expected.hpp": "libexpected-dev",
    "toml++/toml.h": "libtomlplusplus-dev",
    "zlib.h": "zlib1g-dev",
}
PYTHON = {"Python.h": "python3-dev"}
# Without it the package is built too, but ranks on several hosts then need MPI or NCCL.
USEFUL = {"gloo/allreduce.h": "libgloo-dev"}
# scripts/wheel.sh brings libraries of its own.
BRINGS_LIBRARIES = "XOE_PORTABLE="


class Missing(Exception):
    """What this machine lacks."""


def _compiler():
    return shlex.split(os.environ.get("CXX", "c++"))


def missing_headers(headers):
    """Those that the compiler does not find."""
    asked = "".join(f"#if !__has_include(<{header}>)\nmissing {header}\n#endif\n" for header in headers)
    asked += "#if __cplusplus < 202002L\nmissing C++20\n#endif\n"
    command = [*_compiler(), "-std=c++20", "-x", "c++", "-E", "-P", "-I", sysconfig.get_paths()["include"], "-"]
    done = subprocess.run(command, input=asked, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Missing(f"the compiler `{shlex.join(_compiler())}` does not take C++20 (g++ 12 does): {done.stderr[:200]}")
    return re.findall(r"^missing (.+?)\s*$", done.stdout, re.MULTILINE)


def check_machine():
    """Raises Missing with all that is to be installed."""
    if BRINGS_LIBRARIES in os.environ.get("SKBUILD_CMAKE_DEFINE", ""):
        return
    known = {**NEEDED, **PYTHON, **USEFUL}
    if shutil.which(_compiler()[0]) is None:
        absent, packages = [f"a C++20 compiler ({_compiler()[0]})"], ["build-essential", *known.values()]
    else:
        found = missing_headers(known)
        absent = [header for header in found if header not in USEFUL]
        packages = [known[header] for header in found if header in known]
        if "C++20" in absent:
            raise Missing(f"the compiler `{shlex.join(_compiler())}` is too old: Xoe is written in C++20 (g++ 12 compiles it)")
    if absent:
        raise Missing(
            f"to build Xoe this machine lacks {', '.join(absent)}. On Debian 12, as root:\n\n"
            f"    apt-get install -y {' '.join(sorted(packages))}\n\n"
            "then the same command again. A wheel that scripts/wheel.sh made elsewhere needs none of this "
            "(docs/guide/install.md)."
        )


def _is_recent(program, least):
    if shutil.which(program) is None:
        return False
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
    version = re.search(r"(\d+)\.(\d+)", said)
    return version is not None and tuple(map(int, version.groups())) >= least


def _requirements(_settings=None):
    try:
        check_machine()
    except Missing as reason:
        sys.exit(f"\nxoe: {reason}\n")
    tools = [] if _is_recent("cmake", CMAKE) else [f"cmake>={CMAKE[0]}.{CMAKE[1]}"]
    return [*REQUIREMENTS, *tools, *([] if _is_recent("ninja", (1, 10)) else ["ninja>=1.10"])]


get_requires_for_build_wheel = _requirements
get_requires_for_build_editable = _requirements


def get_requires_for_build_sdist(_settings=None):
    return REQUIREMENTS


def _hook(name):
    def call(*arguments, **settings):
        from scikit_build_core import build  # pip has installed it by then

        return getattr(build, name)(*arguments, **settings)

    return call


build_sdist = _hook("build_sdist")
build_wheel = _hook("build_wheel")
build_editable = _hook("build_editable")
prepare_metadata_for_build_wheel = _hook("prepare_metadata_for_build_wheel")
prepare_metadata_for_build_editable = _hook("prepare_metadata_for_build_editable")

if __name__ == "__main__":  # what would pip say?
    os.chdir(pathlib.Path(__file__).resolve().parents[1])
    print("\n".join(_requirements()))
