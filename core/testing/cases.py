"""Runs tests by unittest that are functions, or methods of one object: a fixture for all of them, or a process that must end with the
first that fails.
"""

import sys
import time
import unittest

SKIPPED = 77  # the exit code of a test that could not run, or not as a whole


class _Case(unittest.FunctionTestCase):
    def __init__(self, name, function, after):
        super().__init__(function)
        self._name, self._after = name, after

    def __str__(self):
        return self._name

    def shortDescription(self):  # noqa: N802
        return None

    def tearDown(self):
        self._after()


class _Result(unittest.TextTestResult):
    """Says how long each took, too."""

    def startTest(self, test):  # noqa: N802
        self._began = time.monotonic()
        super().startTest(test)

    def addSuccess(self, test):  # noqa: N802
        self.stream.write(f"({time.monotonic() - self._began:.1f} s) ")
        super().addSuccess(test)


def functions(namespace):
    """The tests of a script, given its globals()."""
    return [(name, test) for name, test in namespace.items() if name.startswith("test_") and callable(test)]


def methods(tests):
    """The tests of an object."""
    return [(name, getattr(tests, name)) for name in dir(tests) if name.startswith("test_")]


def chosen(tests, words):
    """Those whose names have one of the words, or all; none is an error."""
    found = [(name, test) for name, test in tests if not words or any(word in name for word in words)]
    if not found:
        sys.exit(f"no test's name has {' or '.join(words)}; there are {', '.join(name for name, _ in tests)}")
    return found


def run(tests, after=lambda: None, failfast=False):
    """tests: names and functions. after: called behind each. 1: one has failed; SKIPPED: none has, and some could not run; else 0."""
    suite = unittest.TestSuite(_Case(name, test, after) for name, test in tests)
    runner = unittest.TextTestRunner(sys.stdout, verbosity=2, failfast=failfast, resultclass=_Result)
    result = runner.run(suite)
    return 1 if not result.wasSuccessful() else SKIPPED if result.skipped else 0
