"""`xoe bench collectives` as users meet it."""

import json
import unittest

from program import BIN, BenchTest, xoe

COLLECTIVES = ["all_reduce", "all_gather", "broadcast", "reduce_scatter", "alltoall"]


def rows(out):
    return [line.split() for line in out.splitlines() if line and not line.startswith("#")]


class CollectivesVerb(BenchTest):
    def test_starts_two_ranks_by_itself(self):
        out = xoe("bench", "collectives", "-b", "8", "-e", "512", "-f", "8", "-n", "2", "-w", "1")
        self.assertEqual([row[:5] for row in rows(out)],
                         [[str(size), str(size // 4), "float", "sum", "-1"] for size in (8, 64, 512)])
        self.assertTrue(all(len(row) == 13 and row[8] == row[12] == "0" for row in rows(out)), out)
        self.assertIn("#  Rank  1 Pid ", out)
        self.assertIn("# Out of bounds values : 0 OK", out)

    def test_all_collectives_types_and_reductions_are_right(self):
        for memory, words in (("private", []), ("shared", ["--rewrite"])):
            out = xoe("run", "--no-tag-output", "-np", "3", BIN / "xoe", "bench", "collectives", "all", "-b", "1", "-e",
                      "70000", "-f", "260", "-n", "1", "-w", "0", "-d", "all", "-o", "all", "--memory", memory, "--json",
                      *words)
            result = json.loads(out)
            # 3 sizes of 9 types; 5 reductions of two of them
            self.assertEqual(len(result["results"]), 3 * 9 * (2 * 5 + 3))
            self.assertEqual({row["experiment_name"] for row in result["results"]}, set(COLLECTIVES))
            self.assertEqual(result["out_of_bounds"], {"count": 0, "okay": "true"})
            self.assertEqual(result["config"]["memory"], memory)

    def test_writes_the_json_of_nccl_tests(self):
        xoe("bench", "collectives", "reduce_scatter", "-b", "4K", "-e", "4K", "-n", "3", "-J", self.folder / "a.json", "--html",
            self.folder / "a.html")
        self.assertIn("Collectives of 2 ranks", (self.folder / "a.html").read_text())
        result = self.json("a.json")
        self.assertEqual(result["config"]["iterations"], 3)
        self.assertEqual([one["rank"] for one in result["config"]["devices"]], [0, 1])
        (row,) = result["results"]
        self.assertEqual((row["size"], row["count"], row["type"]), (4096, 512, "float"))
        for place in ("out_of_place", "in_place"):
            self.assertGreater(row[place]["time"], 0)
            self.assertAlmostEqual(row[place]["alg_bw"], 4096 / row[place]["time"] / 1e3)
            self.assertAlmostEqual(row[place]["bus_bw"], row[place]["alg_bw"] / 2)

    def test_mistakes(self):
        self.assertIn("--minbytes 9 is above --maxbytes 4", xoe("bench", "collectives", "-b", "9", "-e", "4", code=2))
        self.assertIn("--datatype: choose", xoe("bench", "collectives", "-d", "floot", code=2))
        self.assertIn("not all_redoo", xoe("bench", "collectives", "all_redoo", code=2))
        self.assertIn("--root 5: there are 2 ranks", xoe("bench", "collectives", "-r", "5", code=2))
        self.assertIn("not -3", xoe("bench", "collectives", "--minbytes=-3", code=2))


if __name__ == "__main__":
    unittest.main()
