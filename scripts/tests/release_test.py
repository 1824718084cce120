"""scripts/release.sh in a small repository, where a script plays wheel.sh: what it refuses, and what a release holds."""

import pathlib
import shutil
import subprocess
import tarfile
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
WHEEL = """#!/bin/sh
mkdir -p build/wheel-metadata/sboms && echo '{}' >build/wheel-metadata/sboms/xoe.cdx.json
[ "$1" = --all ] && echo wheel >"$2/xoe-1.2.3-py3-none-any.whl"
"""


class Release(unittest.TestCase):
    def setUp(self):
        held = tempfile.TemporaryDirectory(prefix="xoe-test-")
        self.addCleanup(held.cleanup)
        self.folder = pathlib.Path(held.name)
        (self.folder / "scripts").mkdir()
        for name in ("lib.sh", "release.sh"):
            shutil.copy(ROOT / "scripts" / name, self.folder / "scripts")
        (self.folder / "scripts" / "wheel.sh").write_text(WHEEL)
        (self.folder / "scripts" / "wheel.sh").chmod(0o755)
        (self.folder / "CMakeLists.txt").write_text("project(xoe VERSION 1.2.3 LANGUAGES CXX)\n")
        (self.folder / "CHANGELOG.md").write_text("## [1.2.3] - 2026-11-23\n")
        (self.folder / ".gitignore").write_text("/build/\n")
        self.git("init", "-q", "-b", "main")
        self.commit()

    def git(self, *arguments):
        who = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false", "-c", "tag.gpgsign=false")
        subprocess.run(["git", *who, *arguments], cwd=self.folder, check=True, stdout=subprocess.DEVNULL)

    def commit(self):
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "a change")

    def release(self, *arguments):
        return subprocess.run(
            [str(self.folder / "scripts" / "release.sh"), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )

    def refused(self, why):
        done = self.release()
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(why, done.stdout)
        self.assertFalse((self.folder / "build").exists())

    def test_what_is_refused(self):
        self.refused("there is no tag v1.2.3")
        self.git("tag", "v1.2.3")
        (self.folder / "new").touch()
        self.refused("commit first")
        self.commit()
        self.refused("the tag v1.2.3 is not what is checked out")
        (self.folder / "CHANGELOG.md").write_text("## [1.2.2]\n")
        self.commit()
        self.git("tag", "-f", "v1.2.3")
        self.refused("CHANGELOG.md has no section [1.2.3]")

    def test_what_it_holds(self):
        self.git("tag", "-a", "-m", "1.2.3", "v1.2.3")
        done = self.release()
        self.assertEqual(done.returncode, 0, done.stdout)
        made = self.folder / "build" / "release-1.2.3"
        files = {path.name for path in made.iterdir()}
        self.assertEqual(files, {"SHA256SUMS", "xoe-1.2.3-py3-none-any.whl", "xoe-1.2.3.cdx.json", "xoe-1.2.3.tar.gz"})
        subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=made, check=True)
        with tarfile.open(made / "xoe-1.2.3.tar.gz") as archive:
            self.assertIn("xoe-1.2.3/CMakeLists.txt", archive.getnames())
        # The same tag gives the same sources, to the byte.
        again = self.folder / "build" / "again"
        self.assertEqual(self.release(str(again)).returncode, 0)
        self.assertEqual((made / "SHA256SUMS").read_text(), (again / "SHA256SUMS").read_text())
        self.assertIn("is there already", self.release().stdout)


if __name__ == "__main__":
    unittest.main()
