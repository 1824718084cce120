"""What the programs that compare share: options, rounds, giving up, processes, and the file of figures."""

import contextlib
import io
import json
import pathlib
import sys
import tempfile
import time
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "measure"))

from compare import processes, program

XOE = """#!/bin/sh
[ "$1 $2 $4" = "bench compare --html" ] && echo page > "$5"
"""


def parsed(*words):
    parser = program.parser_of("A test.", rounds=3, limit=5, peers="a,b")
    parser.add_argument("--seconds", type=float, default=1.0)
    with mock.patch.object(sys, "argv", ["test", *words]):
        return program.parse(parser, {"peers": ("a", "b")}, rounds=1, seconds=0.1)


class Options(unittest.TestCase):
    def test_quick_changes_defaults_only(self):
        self.assertEqual((parsed().rounds, parsed().seconds), (3, 1.0))
        self.assertEqual((parsed("--quick").rounds, parsed("--quick").seconds), (1, 0.1))
        self.assertEqual((parsed("--quick", "--rounds", "2").rounds, parsed("--peers", "b").peers), (2, ["b"]))

    def test_what_is_not_known_is_said(self):
        for words, wanted in ((("--peers", "a,x"), "not known: x; choose from a, b"), (("--rounds", "0"), "at least 1 round")):
            errors = io.StringIO()
            with self.assertRaises(SystemExit), contextlib.redirect_stderr(errors):
                parsed(*words)
            self.assertIn(wanted, errors.getvalue())


class Rounds(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        (self.folder / "xoe").write_text(XOE)
        (self.folder / "xoe").chmod(0o755)
        self.comparison = program.Comparison(parsed("--bin", str(self.folder), "--out", str(self.folder / "out")))
        self.comparison.say = lambda text: None

    def test_each_round_has_another_order(self):
        names = list("abcdef")
        orders = [program.in_turn(names, number) for number in range(3)]
        self.assertEqual([sorted(order) for order in orders], [names] * 3)
        self.assertEqual(len(set(map(tuple, orders))), 3)

    def test_who_fails_is_given_up_once_with_the_reason(self):
        asked = []

        def fails():
            asked.append(1)
            raise processes.GivenUp("error: it ended with 1:\nmuch\nthe reason")

        with contextlib.redirect_stderr(io.StringIO()):
            rounds = self.comparison.measure({"good": lambda: 2.0, "bad": fails}, str)
        self.assertEqual(rounds, [{"good": 2.0}] * 3)
        self.assertEqual(asked, [1])
        self.assertEqual(self.comparison.given_up, {"bad": "the reason"})

    def test_of_a_job_the_reason_is_the_rank_that_failed_first(self):
        with contextlib.redirect_stderr(io.StringIO()):
            self.comparison.give_up("job", "error:\nxoe run: rank 1 exited with code 1\nxoe run: 1 other rank was ended")
        self.assertEqual(self.comparison.given_up, {"job": "xoe run: rank 1 exited with code 1"})

    def test_no_round_but_the_first_begins_after_the_limit(self):
        self.comparison.arguments.limit = 0
        self.assertEqual(list(self.comparison.rounds()), [0])

    def test_ratios_are_those_within_a_round(self):
        rounds = [{"a": 4, "b": 2}, {"a": 9}, {"a": 9, "b": 3}]
        self.assertEqual(program.ratios_of(rounds, "a", "b"), [2, 3])
        self.assertEqual(program.values_of(rounds, "b"), [2, 3])

    def test_the_file_has_measurements_and_all_else(self):
        rows = [("xoe", "us", True, 1.5), ("gloo", "us", True, 3), ("xoe", "us", True, 2.5), ("xoe", "idle", True, 0)]
        with contextlib.redirect_stdout(io.StringIO()):
            self.comparison.save("test", "A test", rows, launches=[1])
        [path] = (self.folder / "out").glob("test-*.json")
        saved = json.loads(path.read_text())
        self.assertEqual((saved["benchmark"], saved["title"], saved["launches"]), ("measurements", "A test", [1]))
        first, second = saved["measurements"]
        self.assertEqual(first, {"name": "xoe", "series": "Xoe", "quantity": "us", "less_is_better": True, "runs": [1.5, 2.5]})
        self.assertEqual((second["name"], second["series"]), ("gloo", "others"))
        self.assertIn("cores", saved["environment"])
        self.assertTrue(path.with_suffix(".html").exists())


class Processes(unittest.TestCase):
    def test_what_fails_says_why_and_ends_the_others(self):
        sleeper = processes.start(["sleep", "60"], None)
        failing = processes.start(["sh", "-c", "echo the reason >&2; exit 3"], None)
        with self.assertRaisesRegex(processes.GivenUp, "ended with 3:\nthe reason"):
            processes.outputs_of([failing, sleeper], 60)
        self.assertIsNotNone(sleeper.poll())

    def test_what_does_not_end_is_ended_with_its_children(self):
        started = time.monotonic()
        with self.assertRaisesRegex(processes.GivenUp, "no answer within 0.2 s"):
            processes.run(["sh", "-c", "sleep 60 & wait"], None, 0.2)
        self.assertLess(time.monotonic() - started, 30)

    def test_what_is_not_there_is_said(self):
        with self.assertRaisesRegex(processes.GivenUp, "cannot start: .*no-such-program"):
            processes.run(["/no-such-program"], None, 1)


if __name__ == "__main__":
    unittest.main()
