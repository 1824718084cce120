"""scripts/release.sh in a small repository, where scripts play what it calls: what it refuses, what a release holds, and what a dry
run leaves out. The workflow that publishes calls it.
"""

import os
import pathlib
import re
import shutil
import subprocess
import tarfile
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
WHEEL = """#!/bin/sh
processor=x86_64
[ "$1" = --aarch64 ] && { processor=aarch64; shift; [ -f cross ] || { echo "error: no cross compiler" >&2; exit 1; }; }
[ "$1" = --check ] && exit 0
[ "$1 $2" = "--all --check" ] && { [ -f pythons ] || { echo "error: no Python 3.10" >&2; exit 1; }; exit 0; }
mkdir -p build/wheel-metadata-$processor/sboms build/peers/wheel/bin && echo '{}' >build/wheel-metadata-$processor/sboms/xoe.cdx.json
cp play/python build/peers/wheel/bin/python
if [ "$1" = --all ]; then shift; echo wheel >"$1/xoe-1.2.3-cp311-cp311-linux_$processor.whl"; fi
echo wheel >"$1/xoe-1.2.3-py3-none-linux_$processor.whl"
"""
# What the others make; each is called with what release.sh gives it.
PLAYED = {
    "scripts/setup.sh": "",
    "scripts/conda.sh": '[ -f channel ] || { echo "error: no channel" >&2; exit 1; }; [ "$1" = --check ] || { mkdir -p "$2/linux-64" && '
    'echo conda >"$2/linux-64/xoe-1.2.3-py311_0.conda"; }',
    "scripts/docs.sh": "mkdir -p build/docs/html && echo page >build/docs/html/index.html",
    # Asked for requirements, run as pip, or told to make the sources.
    "play/python": 'case "$*" in *get_requires*) echo tool==1;; *build_sdist*) echo sources >"$3/xoe-1.2.3.tar.gz";; esac',
    "play/cpack": 'mkdir -p "$6" && echo deb >"$6/xoe_1.2.3_amd64.deb"',
    "play/docker": '[ -f daemon ] || exit 1; [ "$1" != build ] || ls build/wheels >built-of',
}
FILES = {"SHA256SUMS", "xoe-1.2.3.tar.gz", "xoe-1.2.3-docs.tar.gz", "xoe_1.2.3_amd64.deb", "xoe-1.2.3-py311_0.conda"}
OF_A_PROCESSOR = ("xoe-1.2.3-py3-none-linux_{}.whl", "xoe-1.2.3-{}.cdx.json")
PYTHONS = "xoe-1.2.3-cp311-cp311-linux_{}.whl"  # stands for those that `wheel.sh --all` makes beside


def files_of(*processors, also=()):
    """What a release for these processors holds."""
    return FILES | {name.format(processor) for processor in processors for name in (*OF_A_PROCESSOR, *also)}


class Release(unittest.TestCase):
    def setUp(self):
        held = tempfile.TemporaryDirectory(prefix="xoe-test-")
        self.addCleanup(held.cleanup)
        self.folder = pathlib.Path(held.name)
        (self.folder / "scripts").mkdir()
        for name in ("lib.sh", "release.sh"):
            shutil.copy(ROOT / "scripts" / name, self.folder / "scripts")
        (self.folder / "play").mkdir()
        (self.folder / "packages").mkdir()
        (self.folder / "packages" / "build_backend.py").touch()
        for name, text in {"scripts/wheel.sh": WHEEL, **{name: f"#!/bin/sh\n{text}\n" for name, text in PLAYED.items()}}.items():
            (self.folder / name).write_text(text)
            (self.folder / name).chmod(0o755)
        for name in ("pythons", "channel", "daemon", "cross"):
            (self.folder / name).touch()
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
            env={**os.environ, "PATH": f"{self.folder / 'play'}:{os.environ['PATH']}"},
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
        (self.folder / "CHANGELOG.md").write_text("## [1.2.2] - 2026-11-23\n## [1.2.3] - not released yet\n")
        self.commit()
        self.git("tag", "-f", "v1.2.3")
        self.refused("CHANGELOG.md has no section [1.2.3] with a date")

    def test_what_it_holds(self):
        self.git("tag", "-a", "-m", "1.2.3", "v1.2.3")
        done = self.release()
        self.assertEqual(done.returncode, 0, done.stdout)
        made = self.folder / "build" / "release-1.2.3"
        files = {path.name for path in made.iterdir()}
        self.assertEqual(files, files_of("x86_64", "aarch64", also=[PYTHONS]))
        subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=made, check=True)
        self.assertEqual(len((made / "SHA256SUMS").read_text().splitlines()), len(files) - 1)
        with tarfile.open(made / "xoe-1.2.3-docs.tar.gz") as archive:
            self.assertIn("html/index.html", archive.getnames())
        self.assertNotIn("left out", done.stdout)
        # The same tag gives the same sources, to the byte.
        again = self.folder / "build" / "again"
        self.assertEqual(self.release(str(again)).returncode, 0)
        self.assertEqual((made / "SHA256SUMS").read_text(), (again / "SHA256SUMS").read_text())
        self.assertIn("is there already", self.release().stdout)

    def test_what_cannot_be_made_stops_a_release(self):
        for missing, why in (("cross", "wheels for aarch64: no cross compiler"),
                             ("pythons", "wheels of all Pythons for x86_64: no Python 3.10")):  # fmt: skip
            (self.folder / missing).unlink()
            self.commit()
            self.git("tag", "-f", "-a", "-m", "1.2.3", "v1.2.3")
            shutil.rmtree(self.folder / "build", ignore_errors=True)
            done = self.release()
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(why, done.stdout)

    def test_the_image_is_of_the_wheels_that_are_given(self):
        old = self.folder / "build" / "wheels"
        old.mkdir(parents=True)
        (old / "xoe-9.9.9-cp311-cp311-linux_x86_64.whl").touch()
        given = self.folder / "build" / "given"
        given.mkdir()
        self.assertIn("no wheel of this version for Python 3.11", self.release("--image", str(given)).stdout)
        (given / PYTHONS.format("aarch64")).touch()
        self.assertIn("no wheel of this version for Python 3.11", self.release("--image", str(given)).stdout)
        (given / "xoe-1.2.3-cp311-cp311-linux_x86_64.whl").touch()
        done = self.release("--image", str(given))
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(set((self.folder / "built-of").read_text().split()), {path.name for path in given.iterdir()})
        self.assertIn("usage:", self.release("--image").stdout)

    def test_a_dry_run_needs_no_tag_and_names_what_it_left_out(self):
        for name in ("pythons", "daemon", "cross"):
            (self.folder / name).unlink()
        self.commit()
        done = self.release("--dry-run")
        self.assertEqual(done.returncode, 0, done.stdout)
        made = self.folder / "build" / "release-1.2.3"
        self.assertEqual({path.name for path in made.iterdir()}, files_of("x86_64"))
        self.assertIn("left out: wheels of all Pythons for x86_64: no Python 3.10", done.stdout)
        self.assertIn("left out: wheels for aarch64: no cross compiler", done.stdout)
        self.assertIn("left out: image: no Docker daemon", done.stdout)


class Workflow(unittest.TestCase):
    text = (ROOT / ".github/workflows/release.yml").read_text()

    def test_it_publishes_what_the_script_makes_of_a_tag(self):
        self.assertIn('tags: ["v*"]', self.text)
        self.assertIn("scripts/release.sh build/release-files", self.text)
        self.assertIn("scripts/release.sh --image build/release-files", self.text)
        self.assertNotIn("--dry-run", self.text)

    def test_what_it_looks_for_is_what_the_script_makes(self):
        script = (ROOT / "scripts/release.sh").read_text()
        for looked_for, made in (("xoe-*-docs.tar.gz", "xoe-$version-docs.tar.gz"), ("-x86_64.cdx.json", "xoe-$version-$processor.cdx.json"),
                                 ("-aarch64.cdx.json", "make_wheels aarch64")):  # fmt: skip
            self.assertIn(looked_for, self.text)
            self.assertIn(made, script)

    def test_nothing_is_published_before_it_is_approved(self):
        jobs = re.split(r"^  (\w+):\n", self.text.split("\njobs:\n")[1], flags=re.MULTILINE)
        needs = {name: re.findall(r"\w+", (re.search(r"^    needs: (.*)", text, re.MULTILINE) or [0, ""])[1])
                 for name, text in zip(jobs[1::2], jobs[2::2], strict=True)}  # fmt: skip
        self.assertEqual(needs["make"], [])
        for name in set(needs) - {"make", "attest", "index"}:
            self.assertIn("index", needs[name])

    def test_no_token_is_kept(self):
        self.assertEqual(set(re.findall(r"secrets\.(\w+)", self.text)), {"GITHUB_TOKEN"})


if __name__ == "__main__":
    unittest.main()
