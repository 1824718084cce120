"""Every line of docs/guide/promises.md names tests, and each of them is declared in the source."""

import pathlib
import re
import sys
import tempfile
import textwrap
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
sys.dont_write_bytecode = True
import declared_tests

PROMISES = ROOT / "docs/guide/promises.md"
NAMED = re.compile(r"`([^`]+)`")


def rows(text):
    """The cells of each line of a table, but for its head."""
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and not re.fullmatch("held by|-+", cells[1]):
            yield cells


def problems(text, declared):
    for cells in rows(text):
        if len(cells) != 2:
            yield f"{cells[0]}: {len(cells)} columns"
            continue
        named = NAMED.findall(cells[1])
        if not named:
            yield f"{cells[0]}: names no test"
        for test in named:
            name, _, case = test.partition(" ")
            if name not in declared:
                yield f"{cells[0]}: there is no test {name}"
            elif case and case not in declared[name].cases():
                yield f"{cells[0]}: {name} has no case {case}"


class Promises(unittest.TestCase):
    def test_each_has_its_tests(self):
        text = PROMISES.read_text()
        self.assertGreater(len(list(rows(text))), 30)
        self.assertEqual(list(problems(text, declared_tests.declared_tests(ROOT))), [])

    def test_what_is_missing_is_said(self):
        table = "| promise | held by |\n|---|---|\n| a | `bootstrap_test NoSuch.Case` |\n| b | |\n| c | `no_such_test` |\n"
        found = list(problems(table, declared_tests.declared_tests(ROOT)))
        self.assertEqual([line.split(":")[0] for line in found], ["a", "b", "c"])


class DeclaredTests(unittest.TestCase):
    def declared(self, cmake, **files):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        tests = pathlib.Path(folder.name, "core", "tests", "some")
        tests.mkdir(parents=True)
        (tests / "CMakeLists.txt").write_text(textwrap.dedent(cmake))
        for name, text in files.items():
            (tests / name.replace("__", ".")).write_text(text)
        return declared_tests.declared_tests(pathlib.Path(folder.name))

    def test_cases_of_all_sources(self):
        cmake = "xoe_test(t SOURCES a.cc b.cc LINK x LABELS unit)"
        found = self.declared(cmake, a__cc="TEST(A, B) {\n", b__cc="TEST_P(C, D) {\n")
        self.assertEqual(found["t"].cases(), {"A.B", "C.D"})
        for pattern in ("A.B", "A.*", "All/C.D/3", "*.D*"):
            self.assertTrue(found["t"].has(pattern), pattern)
        for pattern in ("A.D", "C.B", "B"):
            self.assertFalse(found["t"].has(pattern), pattern)

    def test_loops_are_written_out(self):
        found = self.declared(
            """
            foreach(test a b)
              xoe_test(${test}_test SOURCES ${test}.cc LINK x)
            endforeach()
            # xoe_test(c_test SOURCES c.cc)
            """
        )
        self.assertEqual(sorted(found), ["a_test", "b_test"])

    def test_scripts_have_functions(self):
        cmake = "add_test(NAME s COMMAND python3 ${CMAKE_CURRENT_SOURCE_DIR}/s.py)"
        found = self.declared(cmake, s__py="def works():\n    pass\n")
        self.assertEqual(found["s"].cases(), {"works"})


if __name__ == "__main__":
    unittest.main()
