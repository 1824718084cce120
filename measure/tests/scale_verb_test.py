"""`xoe bench scale`, `predict` and `isolate` as users meet them."""

import json
import os
import unittest

from program import BenchTest, xoe

FLAGS = ["--model", "mlp", "--image-size", "8", "--num-batches", "2", "--num-warmup-batches", "1", "--device", "cpu"]


class ScaleVerb(BenchTest):
    def test_weak_scaling_of_an_emulated_accelerator(self):
        page = self.folder / "page.html"
        out = xoe("bench", "scale", "--ranks", "4,1,2", "--batch-size", "4", "--repeat", "2", "--emulate-accelerator", "400",
                  "--output", self.folder / "a.json", "--html", page, "--", *FLAGS)
        self.assertIn("weak scaling of mlp, batch 4 a rank", out)
        self.assertIn("note: EMULATION", out)
        result = self.json("a.json")
        self.assertEqual([one["ranks"] for one in result["sizes"]], [1, 2, 4])
        self.assertEqual([one["ranks"] for one in result["predicted"]], [8, 16, 32, 64])
        self.assertEqual([one["result"]["train_batch_size"] for one in result["sizes"]], [4, 4, 4])
        self.assertEqual({one["result"]["topology"]["threads"] for one in result["sizes"]}, {1})
        for one in result["sizes"]:
            self.assertEqual(len(one["result"]["repeats"]), 2)
            self.assertLessEqual(one["images_per_s"], 400 * one["ranks"])
            self.assertEqual(one["result"]["reduced_bytes_per_step"] > 0, one["ranks"] > 1)
        self.assertIn("EMULATION", page.read_text())
        self.assertEqual(page.read_text().count("<svg"), 2)
        beside = json.loads(xoe("bench", "compare", self.folder / "a.json", "--against", "articles", "--json"))
        self.assertEqual([one["ranks"] for one in beside["ours"]], [1, 2, 4])
        self.assertIn("EMULATION", " ".join(beside["notes"]))

    def test_strong_scaling_and_pretended_hosts(self):
        out = json.loads(xoe("bench", "scale", "--strong", "--ranks", "1,2", "--pretended-hosts", "1,2", "--batch-size", "4",
                             "--repeat", "1", "--json", "--", *FLAGS))
        self.assertEqual([(one["ranks"], one["pretended_hosts"], one["result"]["train_batch_size"]) for one in out["sizes"]],
                         [(1, 1, 4), (2, 1, 2), (2, 2, 2)])
        self.assertEqual([one["result"]["topology"]["pretended_hosts"] for one in out["sizes"]], [False, False, True])
        self.assertEqual(out["predicted"], [])

    def test_predicts_larger_sizes(self):
        train, net, page = (self.folder / name for name in ("train.json", "net.json", "page.html"))
        xoe("bench", "train", *FLAGS, "--batch-size", "4", "--threads", "1", "--repeat", "3", "--output", train)
        xoe("bench", "collectives", "-b", "8", "-e", "64K", "-f", "64", "-n", "2", "--output", net)
        words = ["bench", "predict", train, "--network", net, "--local", net, "--ranks-per-host", "4"]
        out = json.loads(xoe(*words, "--json", "--html", page))
        self.assertEqual([one["ranks"] for one in out["sizes"]], [2**i for i in range(15)])
        self.assertEqual(out["sizes"][-1]["hosts"], 4096)
        self.assertTrue(all(one["low"] <= one["images_per_s"] <= one["high"] for one in out["sizes"]))
        self.assertEqual(out, json.loads(xoe(*words, "--json")), "the same seed")
        text = xoe("bench", "predict", train, "--latency", "10", "--bandwidth", "12.5", "--ranks", "1,100")
        self.assertIn("SIMULATED", text)
        self.assertRegex(text, r"(?m)^100 +100 ")
        self.assertIn("SIMULATED", page.read_text())
        self.assertIn("say how fast the network is", xoe("bench", "predict", train, code=2))
        self.assertIn("net.json: this is no result", xoe("bench", "predict", net, "--network", net, code=2))
        self.assertIn("train.json: this has no results of collectives",
                      xoe("bench", "predict", train, "--network", train, code=2))

    def test_jobs_alone_and_together(self):
        cpus = sorted(os.sched_getaffinity(0))[:2]
        os.sched_setaffinity(0, cpus)
        if len(cpus) < 2:
            self.skipTest("one CPU")
        page = self.folder / "page.html"
        out = json.loads(xoe("bench", "isolate", "--jobs", "2", "--rounds", "2", "--json", "--html", page, "--", *FLAGS,
                             "--batch-size=4"))
        self.assertIn("2 jobs of mlp", page.read_text())
        self.assertEqual([one["place"] for one in out["jobs"]], [f"CPUs {cpu}" for cpu in cpus])
        for job in out["jobs"]:
            self.assertEqual((len(job["alone"]), len(job["together"])), (2, 2))
            self.assertAlmostEqual(job["interference"], 1 - sum(job["together"]) / sum(job["alone"]))
        self.assertIn("3 jobs need as many CPUs, and this process may use 2", xoe("bench", "isolate", "--jobs", "3", code=2))

    def test_mistakes(self):
        self.assertIn("a batch of 4 cannot be cut into 3 equal parts",
                      xoe("bench", "scale", "--ranks", "3", "--strong", "--batch-size", "4", code=2))
        self.assertIn("--batch-size stands before --", xoe("bench", "scale", "--", "--batch_size=3", code=2))
        error = xoe("bench", "scale", "--ranks", "1", "--", "--modle", "x", code=1)
        self.assertIn("exited with code 2", error)
        self.assertIn("did you mean --model?", error)


if __name__ == "__main__":
    unittest.main()
