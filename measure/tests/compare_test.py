"""Which figures measure/compare/run.py compares, and what it concludes."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "measure"))

from compare import report
from compare.allreduce import Point, best_state, size_text, summarise

POINT = Point(2, 1 << 20, "float32", "rewritten")


def figure(peer, state, median, point=POINT):
    return {
        "ranks": point.ranks,
        "bytes": point.count_bytes,
        "dtype": point.dtype,
        "mode": point.mode,
        "part": point.part,
        "peer": peer,
        "state": state,
        "median_us": median,
        "p25_us": median * 0.9,
        "p75_us": median * 1.1,
        "min_us": median * 0.8,
    }


class BestState(unittest.TestCase):
    def test_takes_the_state_that_all_peers_have(self):
        figures = [figure("a", "near", 1), figure("a", "near", 1), figure("a", "far", 5), figure("b", "far", 6)]
        state, counts = best_state(figures, POINT, ["a", "b"])
        self.assertEqual(state, "far")
        self.assertEqual(counts, {"a": 1, "b": 1})

    def test_prefers_calm_states(self):
        figures = [figure(peer, state, 1) for peer in "ab" for state in ("busy", "near")]
        figures += [figure("a", "busy", 1)]
        self.assertEqual(best_state(figures, POINT, ["a", "b"])[0], "near")

    def test_without_a_common_state_says_mixed(self):
        figures = [figure("a", "near", 1), figure("b", "far", 2)]
        self.assertEqual(best_state(figures, POINT, ["a", "b"])[0], "mixed")
        self.assertEqual(set(summarise(figures, POINT, ["a", "b"])["peers"]), {"a", "b"})

    def test_other_points_and_unmeasured_peers_do_not_count(self):
        other = Point(2, 1 << 20, "float32", "hot")
        figures = [figure("a", "near", 1), figure("b", "near", 2, other)]
        self.assertEqual(best_state(figures, POINT, ["a", "b", "c"])[0], "near")
        self.assertEqual(best_state([], POINT, ["a"])[0], "none")


class Report(unittest.TestCase):
    def test_summary_uses_one_state_only(self):
        figures = [figure("a", "near", m) for m in (3, 1, 2)] + [figure("a", "far", 100)]
        summary = summarise(figures, POINT, ["a"])
        self.assertEqual(summary["state"], "near")
        self.assertEqual(summary["peers"]["a"]["median_us"], 2)
        self.assertAlmostEqual(summary["peers"]["a"]["min_us"], 0.8)

    def test_targets_tell_reached_missed_and_unsettled(self):
        names = ["xoe-zero-copy", "xoe-staged", "openmpi", "mpich"]
        cases = (("near", 10, "reached"), ("near", 30, "NOT REACHED"), ("busy", 10, "unsettled"))
        for state, zero_copy, wanted in cases:
            figures = [
                figure("xoe-zero-copy", state, zero_copy),
                figure("xoe-staged", state, 20),
                figure("openmpi", state, 60),
                figure("mpich", state, 1),  # not among the rivals that the targets name
            ]
            lines = report.targets(figures, names, []).splitlines()
            line = next(line for line in lines if "1 MiB to 256 MiB" in line)
            self.assertIn(wanted, line)

    def test_launch_targets(self):
        launches = [
            {"what": "true", "launcher": "xoe run", "median_ms": 2},
            {"what": "true", "launcher": "mpich", "median_ms": 3},
            {"what": "allreduce", "launcher": "xoe run", "median_ms": 20},
            {"what": "allreduce", "launcher": "mpich", "median_ms": 30},
        ]
        rows = report.launch_targets(launches)
        self.assertEqual([row[-1] for row in rows], ["reached", "NOT REACHED"])

    def test_sizes_read_well(self):
        self.assertEqual([size_text(s) for s in (4, 1 << 16, 3 << 19, 1 << 30)], ["4 B", "64 KiB", "1.5 MiB", "1 GiB"])


if __name__ == "__main__":
    unittest.main()
