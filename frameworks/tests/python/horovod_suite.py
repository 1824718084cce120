"""Horovod's own tests, run unchanged on packages/xoe-horovod, for the scripts that say which ones.

XOE_HOROVOD_CHECKOUT: a checkout of Horovod 0.28.1 or later; the tests are skipped without. Arguments: the tests to run (all), as FILE:NAME.
"""

import functools
import importlib.util
import os
import pathlib
import re
import sys
import time
import types
import unittest
import unittest.mock

import long_jobs
import ranks

SIZE = 2
SECONDS = 120  # for one test, on a loaded machine too
CHECKOUT = os.environ.get("XOE_HOROVOD_CHECKOUT")


@functools.cache
def load(file):
    """The test class of a file of test/parallel, less what it inherits from unittest. It needs two packages that an environment may lack,
    each for one name."""
    unittest.mock.version_info = (0, 0)  # pytest looks at it
    sys.modules.setdefault("mock", unittest.mock)
    if importlib.util.find_spec("pytest") is None:
        mark = types.SimpleNamespace(
            skip=lambda reason="": unittest.skip(reason), skipif=lambda condition, reason="": unittest.skipIf(condition, reason)
        )
        sys.modules["pytest"] = types.SimpleNamespace(mark=mark)
    folder = f"{CHECKOUT}/test/parallel"
    sys.path.insert(0, folder)
    source = importlib.util.spec_from_file_location(file.removesuffix(".py"), f"{folder}/{file}")
    module = importlib.util.module_from_spec(source)
    source.loader.exec_module(module)
    found = [value for value in vars(module).values() if isinstance(value, type) and value.__module__ == module.__name__]
    tests = [kind for kind in found if issubclass(kind, unittest.TestCase)]
    chosen = next(kind for kind in tests if any(name.startswith("test_") for name in dir(kind)))
    chosen.setUpClass()  # for all of its tests
    module.hvd.init()  # some rely on those before them
    return chosen


def run_test(name):
    """Runs one test, FILE:NAME, in this rank."""
    file, _, test = name.partition(":")
    result = unittest.TestResult()
    load(file)(test).run(result)
    for _, text in result.errors + result.failures:
        if "_pytest/outcomes.py" in text and "Skipped: " in text:
            raise long_jobs.Skipped(text.rpartition("Skipped: ")[2])
        raise AssertionError(text)
    for _, why in result.skipped:
        raise long_jobs.Skipped(why)


def _names(file):
    """Those of the file, and those that its class inherits from a file of which it imports everything."""
    folder = pathlib.Path(CHECKOUT) / "test" / "parallel"
    source = (folder / file).read_text()
    for module in re.findall(r"^from (\w+) import \*$", source, re.MULTILINE):
        source += (folder / f"{module}.py").read_text()
    return [f"{file}:{name}" for name in dict.fromkeys(re.findall(r"^    def (test_\w+)\(", source, re.MULTILINE))]


def main(script, files, at_least, different=(), prepare=None, variables=None):
    """Runs the tests of files on ranks. at_least: so many pass. different: names of tests that may fail, because Xoe means something else. prepare: called in a rank
    first. variables: of the environment, by file."""
    if not CHECKOUT:
        print("skipped: XOE_HOROVOD_CHECKOUT is not the path of a checkout of Horovod")
        sys.exit(ranks.peer_python.SKIPPED)
    if long_jobs.is_rank():
        if prepare:
            prepare()
        long_jobs.in_rank(run_test, SECONDS)
        return
    started = time.monotonic()
    path = os.pathsep.join([str(ranks.BUILD / "python"), str(ranks.ROOT / "packages" / "xoe-horovod")])
    everything = [name for file in files for name in _names(file)]
    given = {"PYTHONPATH": path, "XOE_HOROVOD_CHECKOUT": CHECKOUT}
    found = {}
    for file in files:  # each in processes of its own
        names = [name for name in sys.argv[1:] or everything if name.startswith(f"{file}:")]
        found |= long_jobs.run_all(SIZE, script, names, **given, **(variables or {}).get(file, {}))
    for name, (outcome, said) in sorted(found.items()):
        if outcome != "passes":
            print(f"{outcome}: {name}: {said}")
    counts = {kind: sum(outcome == kind for outcome, _ in found.values()) for kind in reversed(long_jobs.WORST_FIRST)}
    print(f"{len(found)} tests on {SIZE} ranks after {time.monotonic() - started:.0f} s: {counts}")
    wrong = [
        name
        for name, (outcome, _) in found.items()
        if outcome == "hangs" or (outcome == "fails" and name.partition(":")[2] not in different)
    ]
    if not sys.argv[1:] and counts["passes"] < at_least:
        wrong.append(f"only {counts['passes']} tests pass, {at_least} should")
    sys.exit(f"failed: {', '.join(wrong)}" if wrong else 0)
