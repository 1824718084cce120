"""Shows that scripts/mutants.py finds lists that do not fit the source, and tells a test that fails from one that hangs."""

import pathlib
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
sys.dont_write_bytecode = True
import mutants


def entry(**different):
    return {"name": "m", "breaks": "it", "file": "a.cc", "old": "a + b", "new": "a - b", "tests": ["a_test A.Adds"], **different}


def problems(*entries):
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / "core/tests").mkdir(parents=True)
        (root / "core/tests/CMakeLists.txt").write_text("xoe_test(a_test SOURCES a_test.cc LINK a)\n")
        (root / "core/tests/a_test.cc").write_text("TEST(A, Adds) {}\n")
        (root / "a.cc").write_text("int add(int a, int b) { return a + b; }  // a b a b\n")
        return list(mutants.problems([mutants.parse(one) for one in entries], root))


class List(unittest.TestCase):
    def test_one_that_fits(self):
        self.assertEqual(problems(entry(), entry(name="n", tests=["a_test"])), [])

    def test_what_does_not_fit(self):
        wrong = ({"old": "a * b"}, {"old": "a b"}, {"file": "b.cc"}, {"new": "a + b"}, {"tests": []}, {"tests": ["b_test"]},
                 {"tests": ["a_test A.Subtracts"]}, {"preset": "debug"})
        for different in wrong:
            self.assertEqual(len(problems(entry(**different))), 1, different)

    def test_a_name_is_given_once(self):
        self.assertEqual(len(problems(entry(), entry())), 1)


class Share(unittest.TestCase):
    def test_each_has_its_turn(self):
        all_of_them = [mutants.parse(entry(name=f"m{i}", preset="tsan" if i % 4 == 3 else "release")) for i in range(13)]
        of_release = {mutant.name for mutant in all_of_them if mutant.preset == "release"}
        for first in (0, 739_950):
            turns = [mutant.name for day in range(5) for mutant in mutants.share_of(all_of_them, 2, first + day)]
            self.assertEqual(set(turns), of_release)
            self.assertEqual(len(turns), len(of_release))
        self.assertEqual(len(mutants.share_of(all_of_them, 50, 3)), len(of_release))


class Outcome(unittest.TestCase):
    def run_script(self, text, limit):
        here = {"name": "WORKING_DIRECTORY", "value": "/"}
        return mutants.Program({"command": ["sh", "-c", text], "properties": [here]}, "/build").run("", limit)

    def test_of_a_test(self):
        for text, outcome in (("exit 0", "passed"), ("exit 3", "failed"), ("exit 77", "skipped"), ("sleep 60", "hung"),
                              ("echo '[  PASSED  ] 0 tests.'", "skipped"), ("kill -SEGV $$", "failed")):
            self.assertEqual(self.run_script(text, 2 if outcome == "hung" else 60).outcome, outcome, text)

    def test_nothing_stays(self):
        left = int(self.run_script("sleep 600 >/dev/null & echo $!; exit 1", 60).output)
        stop = time.monotonic() + 20
        while running(left) and time.monotonic() < stop:
            time.sleep(0.01)
        self.assertFalse(running(left))


def running(pid):
    """Whether the process is there, and no zombie."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


if __name__ == "__main__":
    unittest.main()
