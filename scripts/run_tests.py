#!/usr/bin/env python3
"""Chooses, runs and counts the tests of build folders. scripts/test.sh prepares what they need and calls it.

  run_tests.py targets PRESET TIER... [--changed COMMIT]   prints the programs to build for the tests that `run` would choose
  run_tests.py run PRESET TIER... [--changed COMMIT]       runs them with ctest
  run_tests.py forget TIER...                              so that a build that fails is no earlier success
  run_tests.py cut TIER                                    notes that there was no time for the tests of this tier
  run_tests.py summary TIER...                             prints `N passed, N failed[, N skipped]; ...` and fails if any failed

A test belongs to the tier `core` unless its labels say `full`, `peers`, `frameworks` or `kubernetes`; under a sanitizer to the tier of that name if it is
labelled `unit` or `multiproc`, and not `fuzz` under the thread sanitizer. build/test-record.json holds, for each test, a digest of
all that its last success rested on: its programs and libraries, the files it reads, the machine's packages, XOE_* variables. While
the digest is the same, the success counts and the test does not run again. XOE_TEST_FRESH=1 runs all; XOE_TEST_JOBS says how many
at once (one more than cores; under a sanitizer as many).
"""

import argparse
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree

from houses import HOUSES

ROOT = pathlib.Path(__file__).resolve().parents[1]
RECORD = ROOT / "build" / "test-record.json"
TIERS = ("core", "full", "peers", "frameworks", "kubernetes", "asan", "tsan")
CPP = {".h", ".cc", ".c"}
COMPILED_BY_TESTS = ("frameworks/r/",)  # sources in C that no program of the build is made of
PRODUCT = re.compile(r"(bin|lib|tests|python/xoe)/[^/]+$")  # programs and libraries in a build folder
INCLUDE = re.compile(rb'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
# Folders whose tests are not, or not only, in the folder of the same name below their house's tests, or in those tests themselves.
TESTS_OF = {"core/backend": ("core/tests/comm", "core/tests/nccl", "core/tests/net"),
            "core/drivers": ("core/tests/drivers", "core/tests/nccl", "launch/tests/doctor"),
            "core/trace": ("core/tests/trace", "core/tests/engine"),
            "core/include": ("core/tests/comm", "core/tests/engine", "frameworks/tests/c"),
            "frameworks/c": ("frameworks/tests/c", "frameworks/tests/python", "frameworks/tests/r"),
            "frameworks/plugins": ("frameworks/tests/python",)}


class Test:
    def __init__(self, build, entry, declared):
        properties = {item["name"]: item["value"] for item in entry.get("properties", ())}
        self.name = entry["name"]
        self.labels = set(properties.get("LABELS", ()))
        self.environment = properties.get("ENVIRONMENT", [])
        self.command = entry.get("command") or build.commands[self.name]  # ctest has none before it is built
        self.declared = declared  # folder of its CMakeLists.txt
        below = f"{build.folder}/"
        self.programs = [word.removeprefix(below) for word in self.command if word.startswith(below)]
        self.programs = [name for name in self.programs if name in build.inputs]
        self.is_script = not self.command[0].startswith(below)
        if self.is_script and any(word.startswith("XOE_TEST_DIR=") for word in self.environment):
            sys.exit(f"error: the script of {self.name} is given XOE_TEST_DIR. Name the programs of tests/ that it starts in its command, "
                     "so that the tiers that build only what their tests need build them.")
        self.reads_all = "repository" in self.labels or declared == "docs/tests"  # documents too

    def tier(self, preset):
        if preset in ("asan", "tsan"):
            # A parser that replays its seeds has no threads.
            runs = self.labels & {"unit", "multiproc"} and not (preset == "tsan" and "fuzz" in self.labels)
            return preset if runs else None
        return next((tier for tier in ("peers", "frameworks", "kubernetes", "full") if tier in self.labels), "core")


class Build:
    """A configured build folder: the tests that ctest knows, and what each program is made of as Ninja knows it."""

    def __init__(self, preset):
        self.preset = preset
        self.folder = ROOT / "build" / preset
        self.inputs = {}
        self.products = []
        for line in (self.folder / "build.ninja").read_text().splitlines():
            if line.startswith("build "):
                outputs, _, rest = line[len("build "):].replace("$ ", "\0").partition(": ")
                rule, *names = rest.split()
                names = [word.replace("\0", " ") for word in names if not word.startswith("|")]
                for output in outputs.replace("\0", " ").split():
                    self.inputs.setdefault(output, []).extend(names)
                    if "_LINKER__" in rule and PRODUCT.match(output):
                        self.products.append(output)
        shown = subprocess.run(["ctest", "--test-dir", self.folder, "--show-only=json-v1"], capture_output=True, text=True, check=True)
        listed = json.loads(shown.stdout)
        graph = listed["backtraceGraph"]
        self.commands = {}
        for file in self.folder.rglob("CTestTestfile.cmake"):
            for name, words in re.findall(r'^add_test\((?:\[=\[)?([^\s\]]+)(?:\]=\])? (".*")\)$', file.read_text(), re.MULTILINE):
                self.commands[name] = re.findall(r'"([^"]*)"', words)
        self.tests = []
        for entry in listed["tests"]:
            node = graph["nodes"][entry["backtrace"]]
            while "parent" in node:
                node = graph["nodes"][node["parent"]]
            file = pathlib.Path(graph["files"][node["file"]])
            self.tests.append(Test(self, entry, (self.folder / file).resolve().parent.relative_to(ROOT).as_posix()))
        names = [test.name for test in self.tests]
        if twice := {name for name in names if names.count(name) > 1}:  # results are kept by name
            sys.exit(f"error: two tests are called {', '.join(sorted(twice))}")

    def reach(self, outputs):
        """All files and targets that these are made of, themselves included."""
        seen, waiting = set(), list(outputs)
        while waiting:
            name = waiting.pop()
            if name not in seen:
                seen.add(name)
                waiting += self.inputs.get(name, ())
        return seen

    def programs_of(self, test):
        """What a test may start or load: a script anything, a program what the build makes before it."""
        if test.is_script:
            return [] if "repository" in test.labels else self.products
        return sorted(self.reach(test.programs) & set(self.products))

    def sources(self, outputs):
        """The source files of these, as paths below the root; those in a unity file too."""
        found = set()
        for name in self.reach(outputs):
            path = (self.folder / name).resolve()
            if path.suffix == ".cxx" and path.exists():
                found.update(pathlib.Path(os.fsdecode(file)) for file in INCLUDE.findall(path.read_bytes()))
            elif path.suffix in CPP:
                found.add(path)
        return {path.relative_to(ROOT).as_posix() for path in found if path.is_relative_to(ROOT)}


def git(*words):
    done = subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else None


class Digests:
    """What each test of a build rests on, as a digest."""

    def __init__(self, build):
        self.build = build
        self.of_file = {}
        self.tree = sorted(set(git("ls-files", "--cached", "--others", "--exclude-standard") or ()))
        machine = [os.uname().release, os.cpu_count()]
        machine += sorted((name, value) for name, value in os.environ.items() if name.startswith(("XOE_", "HOROVOD_")))
        stamps = [ROOT / ".venv" / ".xoe-core", ROOT / ".venv" / ".xoe-test", pathlib.Path("/var/lib/dpkg/status"),
                  *sorted((ROOT / "build" / "peers").glob("*/installed"))]
        self.machine = repr([machine, [self.file(stamp) for stamp in stamps]])

    def file(self, path):
        if path not in self.of_file:
            try:
                self.of_file[path] = hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()
            except OSError:
                self.of_file[path] = "none"
        return self.of_file[path]

    def files_read(self, test):
        """The files of the tree that a test may read."""
        if test.reads_all:
            return self.tree
        if test.is_script:
            return [file for file in self.tree if not is_built(file)]
        return [file for file in self.tree if file.startswith(test.declared + "/") and pathlib.Path(file).suffix not in CPP]

    def digest(self, test):
        files = [self.build.folder / name for name in self.build.programs_of(test)] + [ROOT / name for name in self.files_read(test)]
        parts = [test.command, test.environment, self.machine, [(str(file), self.file(file)) for file in files]]
        return hashlib.sha256(repr(parts).encode()).hexdigest()


class Changes:
    """The files that differ from a commit, and which tests that concerns."""

    def __init__(self, build, commit):
        self.build = build
        changed = git("diff", "--name-only", commit) if git("rev-parse", "--verify", "-q", f"{commit}^{{commit}}") else None
        if changed is None:
            changed = git("ls-files") or []  # too young a history, or too short a copy of it: all
        self.files = set(changed) | set(git("ls-files", "--others", "--exclude-standard") or ())
        self.by_name = {}
        for path in git("ls-files", "--cached", "--others", "--exclude-standard") or ():
            if pathlib.Path(path).suffix in CPP:
                self.by_name.setdefault(path.rsplit("/", 1)[-1], []).append(path)
        self.included = {}

    def includes(self, path):
        """The files of ours that a file includes; more than one where a name is not clear."""
        if path not in self.included:
            found = []
            for name in INCLUDE.findall((ROOT / path).read_bytes()) if (ROOT / path).exists() else ():
                name = os.fsdecode(name)
                beside = os.path.normpath(os.path.join(os.path.dirname(path), name))
                same = self.by_name.get(name.rsplit("/", 1)[-1], ())
                found += [beside] if beside in same else [other for other in same if f"/{other}".endswith(f"/{name}")]
            self.included[path] = found
        return self.included[path]

    def reached(self, sources):
        """Whether a changed C++ file is among these or what they include, at any depth."""
        seen, waiting = set(), list(sources)
        while waiting:
            path = waiting.pop()
            if path not in seen:
                if path in self.files:
                    return True
                seen.add(path)
                waiting += self.includes(path)
        return False

    def concerns(self, test):
        """By what the test is made of: the folders that changed and all that stand on them."""
        others = [file for file in self.files if not is_built(file)]
        if test.reads_all:
            return bool(self.files)
        if any(builds_everything(file) for file in others):
            return True
        homes = (test.declared, "frameworks/python", "frameworks/r", "examples", "deploy") if test.is_script else (test.declared,)
        if any(file.startswith(home + "/") for file in others for home in homes):
            return True
        sources = self.build.sources(self.build.products if test.is_script else test.programs)
        folders = {os.path.dirname(source) for source in sources}
        return any(os.path.dirname(file) in folders for file in others if file.endswith("CMakeLists.txt")) or self.reached(sources)

    def own(self, test):
        """Whether it tests a folder that changed, dependants not counted: what a sanitizer has time for."""
        if test.declared.endswith("/fuzz"):
            folders = {folder_of(file) for file in self.files if "/tests/" not in file}
            return any(folder_of(header) in folders for header in self.includes(f"{test.declared}/{test.name}.cc"))
        return any(test.declared in tests_of(file) for file in self.files)


def is_built(file):
    """Whether a file reaches tests only through the programs that are built of it, or not at all."""
    return pathlib.Path(file).suffix in CPP | {".md", ".svg"} and not file.startswith(COMPILED_BY_TESTS)


def builds_everything(file):
    """Whether a file decides how all programs are built or all tests run."""
    alone = ("scripts/tests/", "scripts/mutants")  # of tests that read the whole tree
    return "/" not in file or (file.startswith(("cmake/", "requirements/", "scripts/")) and not file.startswith(alone))


def folder_of(file):
    """The house and the first folder in it."""
    return "/".join(file.split("/")[:2])


def tests_of(file):
    """The folders whose tests are those of a source file, or of a test's own file."""
    parts = pathlib.PurePosixPath(file).parts
    if parts[0] not in HOUSES or file.endswith(".md"):
        return ()
    if len(parts) > 1 and parts[1] == "tests":
        return ("/".join(parts[:-1]),)
    folder, house = folder_of(file), f"{parts[0]}/tests"
    own = f"{house}/{parts[1]}"
    return TESTS_OF.get(folder, (own,) if (ROOT / own).is_dir() else (house,))


def choose(build, tiers, commit, house):
    tests = [test for test in build.tests if test.tier(build.preset) in tiers and (house is None or test.declared.startswith(f"{house}/"))]
    if commit is None:
        return tests
    changes = Changes(build, commit)
    return [test for test in tests if (changes.own(test) if build.preset in ("asan", "tsan") else changes.concerns(test))]


def read_json(path):
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return {}


def outcomes(path):
    """{test: "passed", "failed" or "skipped"} of what ctest wrote with --output-junit."""
    found = {}
    try:
        cases = list(ElementTree.parse(path).getroot().iter("testcase"))
    except (OSError, ElementTree.ParseError):
        return {}
    for case in cases:
        note = case.find("skipped")
        # A test whose program is missing is `notrun` as well, and is a failure.
        asked = note is not None and (note.get("message") or "").upper().startswith("SKIP")
        status = case.get("status")
        found[case.get("name")] = "passed" if status == "run" else "skipped" if status == "disabled" or asked else "failed"
    return found


def jobs(preset):
    """How many tests run at once: many wait for most of their time, but not under a sanitizer."""
    wanted = (os.cpu_count() or 1) + (preset == "release")
    return os.environ.get("XOE_TEST_JOBS", str(min(wanted, 8)))


def run(preset, tiers, commit, house):
    build = Build(preset)
    tests = choose(build, tiers, commit, house)
    digests = Digests(build)
    record = read_json(RECORD)
    known = record.setdefault("passed", {})
    wanted = {test.name: digests.digest(test) for test in tests}
    fresh = os.environ.get("XOE_TEST_FRESH") == "1"
    kept = {test.name for test in tests if not fresh and known.get(f"{preset}/{test.name}") == wanted[test.name]}
    rest = [test for test in tests if test.name not in kept]
    print(f"xoe: build/{preset}: {len(rest)} tests to run, {len(kept)} as they were when they passed", flush=True)
    results = build.folder / "test-results.xml"
    results.unlink(missing_ok=True)
    if rest:
        names = "|".join(re.escape(test.name) for test in rest)
        subprocess.run(["ctest", "--preset", preset, "-j", jobs(preset), "-R", f"^({names})$",
                        "--output-junit", results], cwd=ROOT, check=False)
    done = outcomes(results)
    for test in rest:
        outcome = done.get(test.name, "failed")
        if outcome == "passed":
            known[f"{preset}/{test.name}"] = wanted[test.name]
        else:
            known.pop(f"{preset}/{test.name}", None)
    for tier in tiers:
        names = [test.name for test in tests if test.tier(preset) == tier]
        record.setdefault("tiers", {})[tier] = {
            "at": time.strftime("%Y-%m-%d %H:%M:%S"), "commit": (git("rev-parse", "HEAD") or ["unknown"])[0],
            "chosen": " ".join([*([f"of {house}"] if house else []), *([f"changed since {commit}"] if commit else [])]) or "all",
            "passed": sum(name in kept or done.get(name) == "passed" for name in names),
            "unchanged": sum(name in kept for name in names),
            "skipped": sum(done.get(name) == "skipped" for name in names),
            "failed": [name for name in names if name not in kept and done.get(name, "failed") == "failed"]}
    RECORD.write_text(json.dumps(record, indent=1, sort_keys=True))


def summary(tiers):
    ran = read_json(RECORD).get("tiers", {})
    missing = {"passed": 0, "unchanged": 0, "skipped": 0, "failed": ["the build or ctest itself"]}
    cut = [tier for tier in tiers if "cut" in ran.get(tier, {})]
    results = [(tier, ran.get(tier, missing)) for tier in tiers if tier not in cut]
    failed = [f"{tier}: {name}" for tier, result in results for name in result["failed"]]
    for name in failed:
        print(f"failed: {name}")
    passed, unchanged, skipped = (sum(result[key] for _, result in results) for key in ("passed", "unchanged", "skipped"))
    line = f"{passed} passed, {len(failed)} failed" + (f", {skipped} skipped" if skipped else "")
    notes = [f"tiers: {', '.join(tier for tier, _ in results) or 'none'}"]
    notes += [f"{tier} was left out: its build did not end in time" for tier in cut]
    if unchanged:
        notes.append(f"{unchanged} of the passed not run again, as nothing of theirs has changed")
    print(f"{line} ({'; '.join(notes)})")
    nothing = passed == 0 and not cut and not any(result.get("chosen", "all") != "all" for _, result in results)
    return 1 if failed or nothing else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("verb", choices=("targets", "run", "summary", "forget", "cut"))
    parser.add_argument("words", nargs="+")
    parser.add_argument("--changed", metavar="COMMIT")
    parser.add_argument("--house", choices=HOUSES)
    options = parser.parse_args()
    if options.verb == "summary":
        return summary(options.words)
    if options.verb in ("forget", "cut"):
        record = read_json(RECORD)
        tiers = record.setdefault("tiers", {})
        for tier in options.words:
            tiers.pop(tier, None)
            if options.verb == "cut":
                tiers[tier] = {"cut": time.strftime("%Y-%m-%d %H:%M:%S")}
        RECORD.write_text(json.dumps(record, indent=1, sort_keys=True))
        return 0
    preset, *tiers = options.words
    if options.verb == "targets":
        build = Build(preset)
        chosen = choose(build, tiers, options.changed, options.house)
        needed = {name for test in chosen for name in test.programs}
        if any(word.startswith("XOE_BIN_DIR=") for test in chosen for word in test.environment):
            # A script may start each of them; one of a house its own and what its CMakeLists.txt names. The last house shows all.
            some = options.house not in (None, HOUSES[-1])
            needed.update(name for name in build.products if name == "bin/xoe" or (name.startswith("bin/") and not some))
        if any("python" in test.declared for test in chosen):
            needed.add("xoe_wheel")
        if options.house:
            needed.add(f"{options.house}/all")
        print("\n".join(sorted(needed)))
    else:
        run(preset, tiers, options.changed, options.house)
    return 0


if __name__ == "__main__":
    sys.exit(main())
