#!/usr/bin/env python3
"""Breaks the source in one place after the other, and shows that a test notices each time.

  scripts/mutants.py [--only NAME]... [--jobs N]   ends with `N killed, N survived`, and fails if any survived
  scripts/mutants.py --share N                     N of them, others each day; the tier full does so
  scripts/mutants.py --list                        what each mutant breaks
  scripts/mutants.py --check                       only whether the list fits the source; a test of the tier core runs it

scripts/mutants/list.toml has the mutants: a file, a text that stands in it exactly once, what takes its place, and the tests of
which one must fail. They are applied to a copy of the tree in build/mutants, which has build folders of its own; the working
tree is never written to. A new build folder is configured to compile file by file, and one for --share and --only as build/release is,
of which the compiler's cache then has all but what a mutant changes. One that is there stays as it is configured.
A test runs as ctest would run it, but it must end within ten times what it took without a mutant, or in 30 s if that is more:
one that hangs has noticed. Tests that cannot run on this machine are named, and their mutants count neither way.
"""

import argparse
import dataclasses
import datetime
import fcntl
import json
import os
import pathlib
import re
import resource
import select
import signal
import subprocess
import sys
import tempfile
import time
import tomllib

import declared_tests

ROOT = pathlib.Path(__file__).resolve().parents[1]
LIST = "scripts/mutants/list.toml"
COPY = ROOT / "build" / "mutants"
# By the name in the list: the preset of cmake, what is left out of the build, and what every test of it needs.
PRESETS = {
    "release": ("release", ["-DXOE_WITH_PYTHON=OFF"], []),
    "tsan": ("tsan", ["-DXOE_WITH_PYTHON=OFF"], []),
    "python": ("release", [], ["bin/xoe", "xoe_python"]),  # its package is links to the source
}
PARTS = ["-DXOE_BUILD_BENCH=OFF"]
FILE_BY_FILE = ["-DXOE_UNITY=OFF", "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O1 -g0 -DNDEBUG"]
IN_UNITS = ["-DXOE_UNITY=ON"]
LEAST_SECONDS = 30
SKIPPED = 77  # a script's exit code
NOTHING_RAN = re.compile(r"\[  PASSED  \] 0 tests")


class Unfit(Exception):
    """The list and the source do not fit together, or the tree without a mutant does not pass."""


@dataclasses.dataclass(frozen=True)
class Test:
    """Cases of one test of ctest; all of them without a filter."""

    name: str
    filter: str = ""

    def __str__(self):
        return f"{self.name} {self.filter}".strip()


@dataclasses.dataclass
class Mutant:
    """One fault."""

    name: str
    breaks: str
    file: str
    old: str
    new: str
    tests: list[Test]
    preset: str = "release"


@dataclasses.dataclass
class Run:
    """How a test ended."""

    outcome: str  # passed, failed, hung, skipped
    seconds: float
    output: str


def parse(entry):
    tests = [Test(*(part.strip() for part in text.split(" ", 1))) for text in entry["tests"]]
    return Mutant(**{**entry, "tests": tests})


def load(root):
    with open(root / LIST, "rb") as file:
        return [parse(entry) for entry in tomllib.load(file)["mutant"]]


def problems(mutants, root):
    """A line for each mutant that does not fit the source."""
    declared = declared_tests.declared_tests(root)
    names = set()
    for mutant in mutants:
        if mutant.name in names:
            yield f"{mutant.name}: two mutants have this name"
        names.add(mutant.name)
        path = root / mutant.file
        found = path.read_text().count(mutant.old) if path.is_file() else 0
        if found != 1:
            yield f"{mutant.name}: {mutant.file} has the text {found} times"
        if mutant.old == mutant.new:
            yield f"{mutant.name}: changes nothing"
        if not mutant.tests:
            yield f"{mutant.name}: no test is named"
        if mutant.preset not in PRESETS:
            yield f"{mutant.name}: there is no preset {mutant.preset}"
        for test in mutant.tests:
            if test.name not in declared:
                yield f"{mutant.name}: there is no test {test.name}"
            for part in filter(None, test.filter.split(":")):
                if test.name in declared and not declared[test.name].has(part):
                    yield f"{mutant.name}: {test.name} has no case {part}"


def share_of(mutants, count, day):
    """So many of those without a sanitizer. Each comes once before any comes again, if they are tried every day."""
    here = [mutant for mutant in mutants if mutant.preset != "tsan"]
    return [here[(day * count + i) % len(here)] for i in range(min(count, len(here)))]


def copy_tree():
    """Brings build/mutants up to date with the working tree; what has not changed keeps its time."""
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, check=True,
                            capture_output=True, text=True).stdout
    wanted = {name for name in listed.split("\0") if name and (ROOT / name).is_file()}
    for name in wanted:
        source, target = ROOT / name, COPY / name
        content = source.read_bytes()
        if target.is_file() and target.read_bytes() == content:
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        target.chmod(source.stat().st_mode)
    for folder, below, files in os.walk(COPY):
        if pathlib.Path(folder) == COPY:
            below[:] = [name for name in below if name not in ("build", ".venv")]
        for file in files:
            path = pathlib.Path(folder, file)
            if not path.is_symlink() and str(path.relative_to(COPY)) not in wanted:
                path.unlink()


def link(name):
    """A folder of the tree that git does not have, in its place in the copy."""
    if (ROOT / name).exists() and not (COPY / name).exists():
        (COPY / name).parent.mkdir(parents=True, exist_ok=True)
        (COPY / name).symlink_to(ROOT / name)


class Program:
    """A test as ctest knows it."""

    def __init__(self, entry, build):
        properties = {item["name"]: item["value"] for item in entry.get("properties", ())}
        self.command = entry["command"]
        self._environment = dict(value.split("=", 1) for value in properties.get("ENVIRONMENT", ()))
        self._folder = properties.get("WORKING_DIRECTORY", build)
        self._is_gtest = pathlib.Path(self.command[0]).is_relative_to(build)

    def run(self, filter, limit):
        command, environment = list(self.command), {**os.environ, **self._environment}
        if self._is_gtest:
            command.append("--gtest_fail_fast")
            if filter:
                command.append(f"--gtest_filter={filter}")
                for name in ("XOE_TEST_FILES", "XOE_TEST_WITHOUT"):  # they would change the filter
                    environment.pop(name, None)
        with tempfile.TemporaryFile() as output:
            started = time.monotonic()
            code = run_group(command, environment, self._folder, output, limit)
            seconds = time.monotonic() - started
            output.seek(0)
            text = output.read().decode(errors="replace")
        if code is None:
            return Run("hung", seconds, text)
        if code == SKIPPED or (code == 0 and NOTHING_RAN.search(text)):
            return Run("skipped", seconds, text)
        return Run("passed" if code == 0 else "failed", seconds, text)


def run_group(command, environment, folder, output, limit):
    """The exit code; None if the limit passed. Nothing of the process group stays."""
    process = subprocess.Popen(command, env=environment, cwd=folder, stdin=subprocess.DEVNULL, stdout=output,
                               stderr=subprocess.STDOUT, start_new_session=True)
    ended = os.pidfd_open(process.pid)
    try:
        in_time = bool(select.select([ended], [], [], limit)[0])
    finally:
        os.close(ended)
        os.killpg(process.pid, signal.SIGKILL)  # before the wait, so that the number is still this group's
        code = process.wait()
    return code if in_time else None


class Build:
    """A build folder of the copy, and what its tests do without a mutant."""

    def __init__(self, preset, jobs, in_units):
        self._folder = COPY / "build" / (f"{preset}-in-units" if in_units else preset)
        self._preset, without, self._needed = PRESETS[preset]
        self._options = [*PARTS, *without, *(IN_UNITS if in_units else FILE_BY_FILE)]
        self._jobs = jobs
        self._programs = {}
        self._unchanged = {}

    def prepare(self, tests):
        self._configure()
        commands = self._commands()
        if not self._ninja({word for test in tests for word in commands.get(test.name, ())}):
            raise Unfit("the tree does not build without a mutant: see above")
        listed = self._run("ctest", "--show-only=json-v1").stdout
        entries = [entry for entry in json.loads(listed)["tests"] if "command" in entry]
        self._programs = {entry["name"]: Program(entry, self._folder) for entry in entries}
        for test in tests:
            run = self._unchanged[test] = self._run_unchanged(test)
            if run.outcome == "failed":
                raise Unfit(f"{test} fails without a mutant:\n{run.output[-4000:]}")

    def runs(self, test):
        return self._unchanged[test].outcome == "passed"

    def try_out(self, mutant):
        """`killed`, `survived`, `did not build` or `not tried`, and why."""
        tests = [test for test in mutant.tests if self.runs(test)]
        if not tests:
            return "not tried", "none of its tests runs here"
        path = COPY / mutant.file
        text = path.read_text()
        path.write_text(text.replace(mutant.old, mutant.new))
        try:
            if not self._ninja({word for test in tests for word in self._programs[test.name].command}):
                return "did not build", "see above"
            for test in tests:
                run = self._programs[test.name].run(test.filter, max(LEAST_SECONDS, 10 * self._unchanged[test].seconds))
                if run.outcome != "passed":
                    return "killed", f"{test}: {run.outcome} after {run.seconds:.1f} s"
            return "survived", ", ".join(map(str, tests))
        finally:
            path.write_text(text)

    def _run(self, *command):
        return subprocess.run(command, cwd=self._folder, capture_output=True, text=True, check=False)

    def _configure(self):
        if (self._folder / "build.ninja").exists():
            return
        command = ["cmake", "--preset", self._preset, "-B", self._folder, *self._options]
        done = subprocess.run(command, cwd=COPY, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Unfit(f"cmake failed:\n{done.stdout}{done.stderr}")

    def _commands(self):
        """The words of each test's command; ctest tells them only of programs that are built."""
        lines = "".join(file.read_text() for file in self._folder.rglob("CTestTestfile.cmake"))
        found = re.findall(r'^add_test\(\[=\[(.+?)\]=\] (".*")\)$', lines, re.MULTILINE)
        return {name: re.findall(r'"([^"]*)"', words) for name, words in found}

    def _ninja(self, words):
        """Builds those of the words that are programs of this folder, and what every test needs."""
        targets = self._needed + [path.name for path in map(pathlib.Path, sorted(words)) if self._folder in path.parents]
        if not targets:
            return True
        done = self._run("ninja", f"-j{self._jobs}", *targets)
        if done.returncode != 0:
            print(done.stdout[-4000:], flush=True)
        return done.returncode == 0

    def _run_unchanged(self, test):
        if test.name not in self._programs:
            return Run("skipped", 0, "this build has no such test")
        return self._programs[test.name].run(test.filter, None)


def judge(mutants, jobs, in_units):
    copy_tree()
    link(".venv")
    link("build/peers")
    counts = dict.fromkeys(("killed", "survived", "did not build", "not tried"), 0)
    for preset in PRESETS:
        here = [mutant for mutant in mutants if mutant.preset == preset]
        if not here:
            continue
        build = Build(preset, jobs, in_units)
        build.prepare(list(dict.fromkeys(test for mutant in here for test in mutant.tests)))
        for mutant in here:
            started = time.monotonic()
            outcome, why = build.try_out(mutant)
            counts[outcome] += 1
            print(f"{outcome:9} {mutant.name}: {why}; {time.monotonic() - started:.0f} s in all", flush=True)
    return counts


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    options.add_argument("--only", action="append", metavar="NAME")
    options.add_argument("--share", type=int, metavar="N")
    options.add_argument("--list", action="store_true")
    options.add_argument("--check", action="store_true")
    options.add_argument("--jobs", type=int, default=os.cpu_count())
    given = options.parse_args()
    mutants = load(ROOT)
    wrong = list(problems(mutants, ROOT))
    if given.only:
        wrong += [f"{name}: there is no such mutant" for name in given.only if name not in {mutant.name for mutant in mutants}]
        mutants = [mutant for mutant in mutants if mutant.name in given.only]
    if wrong:
        print("\n".join(wrong))
        return 2
    if given.list:
        for mutant in mutants:
            print(f"{mutant.name} ({mutant.file}): {mutant.breaks}")
        return 0
    if given.check:
        print(f"{len(mutants)} mutants fit the source")
        return 0
    if given.share:
        mutants = share_of(mutants, given.share, datetime.date.today().toordinal())
    COPY.mkdir(parents=True, exist_ok=True)
    folder = os.open(COPY, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print(f"error: {COPY.relative_to(ROOT)} is in use by another run")
        return 2
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that a running test ends, too
    try:
        counts = judge(mutants, given.jobs, in_units=bool(given.share or given.only))
    except Unfit as error:
        print(f"error: {error}")
        return 2
    text = f"{counts['killed']} killed, {counts['survived']} survived"
    text += "".join(f", {counts[other]} {other}" for other in ("did not build", "not tried") if counts[other])
    print(text)
    return 1 if counts["survived"] or counts["did not build"] else 0


if __name__ == "__main__":
    sys.exit(main())
