#!/usr/bin/env python3
"""scripts/gpu_bundle.sh: what is in the bundles, and their size."""

import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MOST = 60 << 20


class Bundle(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.file = pathlib.Path(cls.folder.name) / "xoe-gpu.tar.gz"
        subprocess.run([ROOT / "scripts" / "gpu_bundle.sh", "--no-wheel", cls.file], check=True)
        with tarfile.open(cls.file) as archive:
            cls.names = set(archive.getnames())
            cls.links = {member.name: member.linkname for member in archive.getmembers() if member.issym()}

    def test_size(self):
        self.assertLess(self.file.stat().st_size, MOST)

    def test_sources_and_tests(self):
        tracked = subprocess.run(["git", "-C", ROOT, "ls-tree", "-r", "--name-only", "HEAD"], capture_output=True, text=True, check=True)
        self.assertEqual({f"xoe-gpu/{name}" for name in tracked.stdout.splitlines()} - self.names, set())

    def test_packages(self):
        packages = "xoe-gpu/build/gpu/debian/usr"
        for name in ("include/CLI/CLI.hpp", "include/fmt/format.h", "include/gmock/gmock.h", "include/hwy/highway.h", "include/nlohmann/json.hpp",
                     "include/sodium.h", "include/tl/expected.hpp", "include/toml++/toml.h", "include/x86_64-linux-gnu/jconfig.h",
                     "lib/x86_64-linux-gnu/libsodium.a", "lib/x86_64-linux-gnu/libsodium.so", "lib/x86_64-linux-gnu/libpng16.so.16", "lib/x86_64-linux-gnu/libgtest.a",
                     "lib/x86_64-linux-gnu/libfmt.so", "lib/x86_64-linux-gnu/cmake/fmt/fmt-config.cmake"):  # fmt: skip
            self.assertTrue(any(found.startswith(f"{packages}/{name}") for found in self.names), name)

    def test_links_stay_in_the_bundle(self):
        packages = "xoe-gpu/build/gpu/debian"
        for name, target in self.links.items():
            if name.startswith(packages):
                self.assertIn(os.path.normpath(os.path.join(os.path.dirname(name), target)), self.names, name)

    def test_the_small_one(self):
        """Only what the parts run that need no build; it says what it lacks."""
        small = pathlib.Path(self.folder.name) / "small.tar.gz"
        subprocess.run([ROOT / "scripts" / "gpu_bundle.sh", "--wheel-only", "--no-wheel", small], check=True)
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["tar", "xf", small, "-C", folder], check=True)
            tree = pathlib.Path(folder) / "xoe-gpu"
            self.assertEqual(sorted(path.name for path in tree.iterdir()), ["build", "core", "examples", "frameworks", "measure", "scripts", "train"])
            helped = subprocess.run([tree / "scripts" / "gpu_check.sh", "--help"], capture_output=True, text=True, check=True)
            self.assertIn("--budget", helped.stdout)

    def test_nothing_else_is_left(self):
        self.assertFalse((ROOT / "build" / "gpu-bundle").exists())


if __name__ == "__main__":
    if shutil.which("dpkg-query") is None:
        print("skipped: this is not a Debian system")
        sys.exit(77)
    unittest.main()
