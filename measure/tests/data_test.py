#!/usr/bin/env python3
"""Checks what data/bench makes of figures: medians, ratios, targets, and what is not there."""

import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "measure"), str(ROOT / "data/bench")]

import entrants
import summary
from entrants import BEST, DALI, EXACT, FAST, LIMIT, TORCHVISION


def figure(entrant, cost, speed, threads=2, data_set="A", **more):
    found = {"entrant": entrant, "set": data_set, "threads": threads, "cpu_ms_per_image": cost, "images_per_s": speed}
    return {**found, "peak_bytes": 100 << 20, "first_batch_s": 0.05, "opened_first_batch_s": 0.04, **more}


def line_of(text, words):
    """The first one that has all these words, with single spaces."""
    lines = (" ".join(line.split()) for line in text.splitlines())
    return next(line for line in lines if all(word in line for word in words))


class Tables(unittest.TestCase):
    def test_medians_and_ratios_to_the_best_of_tf_data(self):
        figures = [figure(BEST, cost, 2000) for cost in (0.9, 1.0, 5.0)] + [figure(EXACT, 0.25, 7000)]
        text = summary.table_of(figures, "A", 2)
        self.assertIn("1.000 [0.900-5.000]", line_of(text, [BEST]))
        self.assertIn("4.00x", line_of(text, [EXACT]))
        self.assertIn("3.50x", line_of(text, [EXACT]))
        self.assertEqual(summary.table_of(figures, "B", 2), "")

    def test_the_limit_has_no_memory_or_first_batch(self):
        figures = [figure(LIMIT, 0.5, 4000, peak_bytes=None, first_batch_s=None, opened_first_batch_s=None)]
        self.assertTrue(line_of(summary.table_of(figures, "A", 2), [LIMIT]).endswith("-"))


class Targets(unittest.TestCase):
    def test_reached_missed_and_not_measured(self):
        figures = [
            figure(BEST, 1.0, 2000, peak_bytes=800 << 20),
            figure(DALI, 1.1, 1600),
            figure(TORCHVISION, 1.6, 1200),
            figure(EXACT, 0.3, 6000),
            figure(EXACT, 0.3, 3000, threads=1),
        ]
        text = summary.targets(figures, {"Xoe": [5e9], "tf.data": [2.5e9]}, 2)
        self.assertIn("3.33x reached", line_of(text, [EXACT, BEST, "A, CPU"]))
        self.assertIn("NOT REACHED", line_of(text, [EXACT, DALI, "A, CPU"]))
        self.assertIn("not measured", line_of(text, [FAST]))
        self.assertIn("not measured", line_of(text, ["B, CPU"]))
        self.assertIn("1.50x reached", line_of(text, ["1 thread", f"({BEST}) with 2"]))
        self.assertIn("8.00x reached", line_of(text, ["memory"]))
        self.assertIn("0.050 s reached", line_of(text, ["first batch"]))
        self.assertIn("2.00x NOT REACHED", line_of(text, ["reading records"]))

    def test_nothing_measured(self):
        text = summary.targets([], {}, 2)
        self.assertNotIn("reached", text)


class Entrants(unittest.TestCase):
    def test_the_last_line_of_json_counts(self):
        lines = r"""print('{"a": 1}\nnoise\n{"a": 2}\nbye')"""
        self.assertEqual(entrants.run([sys.executable, "-c", lines], 60), {"a": 2})
        with self.assertRaisesRegex(entrants.GivenUp, "printed no JSON"):
            entrants.run([sys.executable, "-c", "print('noise')"], 60)

    def test_why_a_peer_is_not_there(self):
        with tempfile.TemporaryDirectory() as folder:
            before, entrants.ENVIRONMENTS = entrants.ENVIRONMENTS, Path(folder)
            try:
                with self.assertRaisesRegex(entrants.GivenUp, "install_peers.sh dali was not run"):
                    entrants.environment_of("dali")
                (Path(folder) / "data-dali.why").write_text("much\nno wheel for this Python\n", encoding="utf-8")
                with self.assertRaisesRegex(entrants.GivenUp, "not there: no wheel"):
                    entrants.environment_of("dali")
            finally:
                entrants.ENVIRONMENTS = before

    def test_failing_and_hanging_programs_are_given_up(self):
        with self.assertRaisesRegex(entrants.GivenUp, "the reason"):
            entrants.run([sys.executable, "-c", "import sys; sys.exit('the reason')"], 60)
        with self.assertRaisesRegex(entrants.GivenUp, "no answer"):
            entrants.run([sys.executable, "-c", "import time; time.sleep(60)"], 0.5)


if __name__ == "__main__":
    unittest.main()
