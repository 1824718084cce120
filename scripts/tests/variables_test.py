"""The variables XOE_... that Xoe knows are those of the reference page, and all that its source reads are among them."""

import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
sys.dont_write_bytecode = True
from houses import HOUSES

QUOTED = re.compile(r'"(XOE_[A-Z][A-Z0-9_]*)')


def known():
    return set(QUOTED.findall((ROOT / "core/base/known_variables.cc").read_text()))


class Variables(unittest.TestCase):
    def test_the_reference_has_all_of_them_and_no_other(self):
        page = (ROOT / "docs/reference/environment.md").read_text()
        self.assertEqual(set(re.findall(r"XOE_[A-Z][A-Z0-9_]*", page)), known())

    def test_the_source_reads_no_other(self):
        files = [file for house in HOUSES for file in (ROOT / house).rglob("*.cc")
                 if not {"bench", "testing", "tests"} & set(file.parts)]
        used = {name for file in files for name in QUOTED.findall(file.read_text())}
        self.assertEqual(used - known(), set())


if __name__ == "__main__":
    unittest.main()
