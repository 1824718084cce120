"""What core/bench/engine/run.py concludes from its figures."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "measure"))

from compare import steps_report
from compare.steps import Work, summarise_idle, summarise_record, summarise_steps


def figure(peer, median, state="near", network="160x16K", what="steps", **more):
    times = {"p25_us": median * 0.9, "median_us": median, "p75_us": median * 1.1, "mean_us": median, "cpu_us": median}
    return {"ranks": 2, "what": what, "network": network, "peer": peer, "state": state, **times, **more}


def line_of(text, start):
    return next(line for line in text.splitlines() if line.startswith(start))


class Steps(unittest.TestCase):
    def test_commands(self):
        self.assertEqual(Work(2, "steps", "160x16K", "random").command(0.5), "steps 160x16K random 0.5")
        self.assertEqual(Work(2, "idle", "160x16K").command(2.0), "idle 160x16K 2.0")

    def test_only_figures_of_one_state_meet(self):
        figures = [figure("xoe", 10), figure("gloo", 50), figure("xoe", 100, "far"), figure("gloo", 60)]
        summary = summarise_steps(figures, 2, "160x16K")
        self.assertEqual(summary["state"], "near")
        self.assertEqual(summary["peers"]["xoe"]["median_us"], 10)
        self.assertEqual(summary["peers"]["gloo"]["median_us"], 55)

    def test_a_missing_peer_leaves_a_gap(self):
        figures = [figure("xoe", 10), figure("cycle-1ms", 25)]
        cells = line_of(steps_report.step_table(figures, 2), "160x16K").split()
        self.assertEqual(cells[-4:], ["2.50x", "-", "-", "near"])

    def test_targets(self):
        named = figure("xoe", 12, network="named-4B")
        del named["cpu_us"]  # not measured for single tensors
        record = figure("xoe", 100, what="record", recorded_median_us=100.5, recorded_mean_us=120, recorded_cpu_us=99)
        idle = {"ranks": 2, "what": "idle", "network": "160x16K", "peer": "xoe", "cpu_ms_per_s": 0, "switches_per_s": 0}
        figures = [named, figure("xoe", 10), figure("cycle-1ms", 90), figure("gloo", 60), record, idle]
        text = steps_report.targets(figures, [2])
        for start, wanted in (
            ("2 ranks, named 4 B", "NOT REACHED"),
            ("2 ranks, 160 x 16 KiB against cycle-1ms", "NOT REACHED"),
            ("2 ranks, 160 x 16 KiB against gloo", "6.00x  reached"),
            ("2 ranks, idle", "0.0"),
            ("2 ranks, timeline, median", "+0.5%"),
            ("2 ranks, timeline, mean", "NOT REACHED"),
            ("2 ranks, timeline, cpu", "-1.0%"),
        ):
            self.assertIn(" ".join(wanted.split()), " ".join(line_of(text, start).split()))

    def test_nothing_measured(self):
        self.assertEqual(steps_report.step_table([], 2), "")
        self.assertEqual(steps_report.targets([], [2]), "")
        self.assertEqual(summarise_idle([], 2), {})
        self.assertEqual(summarise_record([], 2), {})


if __name__ == "__main__":
    unittest.main()
