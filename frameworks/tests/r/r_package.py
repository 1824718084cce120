"""The R package of this tree, installed into a folder of the test's own against the build's libxoe."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "core/testing"))
import cases

BUILD = pathlib.Path(os.environ.get("XOE_BUILD_DIR", ROOT / "build" / "release"))
SOURCE = ROOT / "frameworks" / "r"
HANGS = 300  # seconds: a limit for what hangs


def need_r():
    """Ends the test with "skipped" where R, or its C headers, are missing."""
    headers = ("Rscript", "--vanilla", "-e", 'cat(file.exists(file.path(R.home("include"), "R.h")))')
    if not shutil.which("Rscript") or subprocess.run(headers, capture_output=True, text=True, check=False).stdout != "TRUE":
        print("skipped: no R with its headers here; `scripts/setup.sh --with r` installs r-base-core")
        sys.exit(cases.SKIPPED)


class Package:
    def __init__(self):
        self._kept = tempfile.TemporaryDirectory(prefix="xoe-r-")
        self.folder = pathlib.Path(self._kept.name)
        self.home = self.folder / "home"  # as an installed Xoe lies
        self.home.mkdir()
        (self.home / "include").symlink_to(ROOT / "frameworks/c/include")
        (self.home / "lib").symlink_to(BUILD / "lib")
        self.library = self.folder / "library"
        self.library.mkdir()

    def environment(self, **more):
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("XOE_", "HOROVOD_", "R_"))}
        return {**kept, "XOE_HOME": str(self.home), "R_LIBS": str(self.library), "LC_ALL": "C.UTF-8", **more}

    def call(self, *words, fails=False, **variables):
        """Runs a command in the folder; gives its output."""
        done = subprocess.run(
            [str(word) for word in words],
            cwd=self.folder,
            env=self.environment(**variables),
            text=True,
            timeout=HANGS,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        assert (done.returncode != 0) == fails, f"{words}: exit code {done.returncode}\n{done.stdout}"
        return done.stdout

    def archive(self):
        """The source package, as R CMD build makes it."""
        self.call("R", "CMD", "build", SOURCE)
        return next(self.folder.glob("xoe_*.tar.gz"))

    def install(self):
        return self.call("R", "CMD", "INSTALL", f"--library={self.library}", self.archive())

    def command(self, size, *words, options=(), told=False):
        """`told`: ranks ignore SIGTERM, to say what they saw of another one's end."""
        ignore = ("sh", "-c", "trap '' TERM; exec Rscript \"$@\"", "sh") if told else ("Rscript",)
        limit = ("--grace", "120") if told else ()
        return [str(BUILD / "bin" / "xoe"), "run", "-np", str(size), *limit, *options, *ignore, *map(str, words)]

    def run(self, size, *words, told=False, **variables):
        """Runs a program on so many ranks; gives the ended process with its output and `seconds`."""
        started = time.monotonic()
        done = subprocess.run(
            self.command(size, *words, options=("--timeout", str(HANGS)), told=told),
            cwd=self.folder,
            text=True,
            check=False,
            env=self.environment(**variables),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        done.seconds = time.monotonic() - started
        return done
