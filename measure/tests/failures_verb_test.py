"""`xoe bench failures` as users meet it: real trainings that are killed, and a program that is not ours."""

import os
import signal
import subprocess
import sys
import time
import unittest

from program import BIN, BenchTest, xoe

# Trains nothing: it tells of steps, and goes on from its checkpoint.
TRAINER = """
import json, os, pathlib, sys, time
steps, every, folder = int(sys.argv[1]), int(sys.argv[2]), pathlib.Path(sys.argv[3])
saved = folder / "step"
step = int(saved.read_text()) if saved.exists() else 0
print(json.dumps({"event": "process", "rank": 0, "pid": os.getpid()}), flush=True)
while step < steps:
    time.sleep(0.01)
    step += 1
    print("[0]", json.dumps({"event": "report", "step": step}), flush=True)
    if step % every == 0:
        new = folder / "new"
        new.write_text(str(step))
        new.rename(saved)
"""
SMALL = ["--synthetic", "--model", "mlp", "--image-size", "16", "--batch", "32", "--threads", "1", "--device", "cpu", "--classes", "10"]


class FailuresVerb(BenchTest):
    def other(self, text):
        path = self.folder / "trainer.py"
        path.write_text(text)
        return f"{sys.executable} {path} $1 $2 $3"

    def test_kills_are_counted_and_undone_steps_too(self):
        page = self.folder / "page.html"
        out = xoe("bench", "failures", "--steps", "200", "--every", "0.5", "--checkpoint-every", "7", "--other", f"mine={self.other(TRAINER)}",
                  "--output", self.folder / "a.json", "--html", page, "--", *SMALL)
        self.assertIn("200 steps of 2 ranks under failures", out)
        result = self.json("a.json")
        runs = {(run["way"], run["mean_seconds"]): run for run in result["runs"]}
        self.assertEqual(set(runs), {(way, mean) for way in ("goes on", "checkpoint", "mine") for mean in (0, 0.5)})
        for (way, mean), run in runs.items():
            with self.subTest(way=way, mean=mean):
                self.assertGreater(run["seconds"], 0)
                self.assertGreaterEqual(run["starts"], 1)
                if mean == 0:
                    self.assertEqual((run["kills"], run["missed"], run["steps_redone"], run["starts"], run["goodput"]), (0, 0, 0, 1, 1))
        mine = runs["mine", 0.5]
        self.assertGreater(mine["kills"], 0)
        self.assertEqual(mine["starts"], mine["kills"] + 1, "each kill ends it")
        self.assertLess(mine["steps_redone"], 7 * mine["kills"] + 1)
        self.assertLess(mine["goodput"], 1)
        self.assertIn("<svg", page.read_text())

    def test_a_signal_ends_it_and_nothing_is_left(self):
        places = self.folder / "tmp"
        places.mkdir()
        words = [BIN / "xoe", "bench", "failures", "--steps", "1000000", "--every", "0.5", "--", *SMALL]
        process = subprocess.Popen(list(map(str, words)), stderr=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(places)})
        self.addCleanup(process.kill)
        self.assertEqual(process.stderr.readline(), "checkpoint, no failure: begins\n")
        end = time.monotonic() + 600
        while not list(places.glob("*/*.ckpt")):
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)
        process.terminate()
        self.assertEqual(process.wait(timeout=600), -signal.SIGTERM)
        process.stderr.close()
        self.assertEqual(list(places.iterdir()), [])

    def test_what_cannot_be_measured_is_told(self):
        error = xoe("bench", "failures", "--steps", "5", "--every", "1", "--", "--synthetic", "--model", "nonesuch", code=1)
        self.assertIn("checkpoint: it has ended 3 times without a step", error)
        self.assertIn("nonesuch", error)
        self.assertIn("'torchrun' is not NAME=COMMAND", xoe("bench", "failures", "--other", "torchrun", code=2))
        self.assertIn("--every", xoe("bench", "failures", "--every", "0", code=2))
        silent = "import time; time.sleep(600)"
        error = xoe("bench", "failures", "--steps", "2", "--every", "60", "--silence", "20", "--other", f"silent={self.other(silent)}",
                    "--", *SMALL, code=1)  # fmt: skip
        self.assertIn("silent: no step for 20 s; it runs", error)


if __name__ == "__main__":
    unittest.main()
