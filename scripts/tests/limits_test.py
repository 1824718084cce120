"""Every test that docs/limits.md names is there: a test of the build, or a file of tests."""

import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
sys.dont_write_bytecode = True
import declared_tests

NAMED = re.compile(r"\b(?:\w+_test|python_\w+)\b")


def missing(text, known):
    """The names in the last columns of the tables that are not known."""
    last = [line.strip().strip("|").rpartition("|")[2] for line in text.splitlines() if line.startswith("|")]
    return sorted({name for cell in last for name in NAMED.findall(cell)} - known)


class Limits(unittest.TestCase):
    def test_the_tests_are_there(self):
        files = {path.stem for path in ROOT.glob("*/tests/**/*_test.*")}
        self.assertEqual(missing((ROOT / "docs/limits.md").read_text(), files | set(declared_tests.declared_tests(ROOT))), [])

    def test_what_is_missing_is_said(self):
        table = "| what_test | size | test |\n|---|---|---|\n| a | 1 | some_test: [x](y_test.cc); no_such_test |\n"
        self.assertEqual(missing(table, {"some_test", "y_test"}), ["no_such_test"])


if __name__ == "__main__":
    unittest.main()
