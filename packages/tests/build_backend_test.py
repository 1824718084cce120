"""What `pip install .` says at once of a machine that cannot build the package."""

import os
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "packages"))
import build_backend

# The houses that the package is built from, and what of them it leaves out.
HOUSES = ("core", "data", "launch", "frameworks")
LEFT_OUT = ("tests/", "bench/", "testing/", "frameworks/libtorch/", "frameworks/r/", "core/backend/mpi/", "core/drivers/", "frameworks/plugins/")
SYSTEM_FOLDERS = {"arpa", "linux", "nanobind", "net", "netinet", "sys"}  # nanobind is one of the requirements
SYSTEM_HEADERS = {f"{name}.h" for name in (
    "dirent", "dlfcn", "fcntl", "fnmatch", "glob", "ifaddrs", "immintrin", "malloc", "netdb", "poll", "pthread", "sched", "signal",
    "stddef", "stdint", "stdlib", "time", "unistd", "xmmintrin")}
SAME_PACKAGE = {"jerror.h": "jpeglib.h"}


def requirements(**variables):
    environment = {name: value for name, value in os.environ.items() if name not in ("CXX", "SKBUILD_CMAKE_DEFINE")}
    command = [sys.executable, "-c", "import build_backend; print('\\n'.join(build_backend.get_requires_for_build_wheel()))"]
    return subprocess.run(command, cwd=ROOT / "packages", env={**environment, **variables}, capture_output=True, text=True, check=False)


class BuildBackend(unittest.TestCase):
    def refusal(self, **variables):
        done = requirements(**variables)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        return done.stderr

    def test_without_a_header_of_any_library_all_are_named(self):
        told = self.refusal(CXX="c++ -nostdinc")
        for header, package in build_backend.NEEDED.items():
            self.assertIn(header, told)
            self.assertRegex(told, rf"apt-get install -y .*\b{re.escape(package)}\b")
        self.assertIn("libgloo-dev", told)

    def test_without_one_header_it_alone_is_named(self):
        with_others = build_backend.missing_headers(["stdio.h", "xoe-no-such.h"])
        self.assertEqual(with_others, ["xoe-no-such.h"])

    def test_without_a_compiler_it_is_asked_for(self):
        self.assertRegex(self.refusal(CXX="no-such-compiler"), r"a C\+\+20 compiler \(no-such-compiler\)[\s\S]*build-essential")

    def test_an_old_compiler_is_named(self):
        self.assertIn("does not take C++20", self.refusal(CXX="false"))

    def test_a_machine_with_everything_gets_the_tools_that_are_missing(self):
        done = requirements(PATH=os.environ["PATH"])
        if done.returncode != 0:
            self.skipTest(f"this machine lacks libraries: {done.stderr.strip()[:200]}")
        self.assertEqual(done.stdout.split()[:2], build_backend.REQUIREMENTS)

    def test_libraries_that_the_build_brings_are_not_looked_for(self):
        done = requirements(CXX="c++ -nostdinc", SKBUILD_CMAKE_DEFINE="XOE_PORTABLE=/somewhere;XOE_WERROR=ON")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_every_package_is_one_of_the_build(self):
        text = (ROOT / "packages.txt").read_text()
        build = re.search(r"\[build\]\n(.*?)\n\n", text, re.DOTALL)[1].splitlines()
        for package in [*build_backend.NEEDED.values(), *build_backend.PYTHON.values(), *build_backend.USEFUL.values()]:
            self.assertIn(package, build)

    def test_every_library_that_the_sources_include_is_asked_for(self):
        known = {*build_backend.NEEDED, *build_backend.USEFUL, *SAME_PACKAGE, *SYSTEM_HEADERS}
        folders = {header.split("/")[0] for header in known if "/" in header} | SYSTEM_FOLDERS
        named = subprocess.run(["git", "ls-files", *HOUSES], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
        seen = set()
        for name in named:
            if not name.endswith((".cc", ".h")) or any(part in name for part in LEFT_OUT):
                continue
            text = (ROOT / name).read_text()
            seen.update(re.findall(r'^#include "(hwy/[\w/-]+\.h)"', text, re.MULTILINE))
            for header in re.findall(r"^#include <([\w+./-]+\.(?:h|hpp))>", text, re.MULTILINE):
                seen.add(header)
                good = header.split("/")[0] in folders if "/" in header else header in known
                self.assertTrue(good, f"{name} includes <{header}>, of which packages/build_backend.py knows no package")
        for header in build_backend.NEEDED:
            self.assertTrue(any(one.split("/")[0] == header.split("/")[0] for one in seen), f"no source includes {header}")


if __name__ == "__main__":
    unittest.main()
