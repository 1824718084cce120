"""The log of `xoe train --mllog`, by the rules of mlcommons/logging's compliance checker for an open division (training_5.0.0/common.yaml)."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

BIN = pathlib.Path(os.environ["XOE_BIN_DIR"])
SMALL = ["--model", "mlp", "--image-size", "8", "--batch", "4", "--threads", "1", "--device", "cpu", "--report-every", "2"]
ONCE = ["submission_division", "init_stop", "run_start", "run_stop", "train_samples", "eval_samples"]
ONCE_OR_MORE = ["cache_clear", "init_start", "block_start", "block_stop", "eval_start", "eval_stop", "eval_accuracy"]
INTERVALS = {"init": "init_stop", "run": "run_stop", "block": "block_stop", "eval": "eval_stop"}


def xoe(*words, code=0):
    done = subprocess.run([BIN / "xoe", *words], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done


class MlperfLog(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.log = self.folder / "mllog.txt"

    def entries(self):
        lines = self.log.read_text(encoding="ascii").splitlines()
        self.assertTrue(all(line.startswith(":::MLLOG {") for line in lines))
        entries = [json.loads(line.removeprefix(":::MLLOG ")) for line in lines]
        for entry in entries:
            self.assertEqual(list(entry), ["namespace", "time_ms", "event_type", "key", "value", "metadata"])
            self.assertLessEqual({"file", "lineno"}, set(entry["metadata"]))
            kind = {"start": "INTERVAL_START", "stop": "INTERVAL_END"}.get(entry["key"].rpartition("_")[2], "POINT_IN_TIME")
            self.assertEqual(entry["event_type"], kind, entry["key"])
        return entries

    def assert_follows_the_rules(self, entries):
        keys = [entry["key"] for entry in entries]
        for key in ONCE:
            self.assertEqual(keys.count(key), 1, key)
        for key in ONCE_OR_MORE:
            self.assertGreaterEqual(keys.count(key), 1, key)
        order = [keys.index(key) for key in ("init_start", "init_stop", "run_start", "run_stop")]
        self.assertEqual(order, sorted(order))
        self.assertEqual(keys[-1], "run_stop")
        opened = []
        for key in keys:
            name, _, end = key.rpartition("_")
            if end == "start" and name in INTERVALS:
                opened.append(name)
            elif key in INTERVALS.values():
                self.assertEqual(opened.pop(), name)
        self.assertEqual(opened, [])
        for entry in entries:
            if entry["key"].startswith(("block_", "eval_s", "eval_a")) and entry["key"] != "eval_samples":
                self.assertIn("samples_count", entry["metadata"], entry["key"])
        times = [entry["time_ms"] for entry in entries if entry["key"] != "cache_clear"]
        self.assertEqual(times, sorted(times))

    def test_a_run_with_evaluations(self):
        data = self.folder / "data"
        xoe("data", "make", data, "--images", "32", "--validation", "8", "--classes", "4", "--side", "16")
        xoe("run", "-np", "2", BIN / "xoe", "train", "--data", data, *SMALL, "--epochs", "2", "--mllog", self.log)
        entries = self.entries()
        self.assert_follows_the_rules(entries)
        of = {entry["key"]: entry for entry in entries}
        self.assertEqual(of["global_batch_size"]["value"], 8)
        self.assertEqual(of["train_samples"]["value"], 32)
        self.assertEqual(of["eval_samples"]["value"], 8)
        self.assertEqual(of["run_stop"]["metadata"]["status"], "success")
        self.assertEqual(of["run_stop"]["metadata"]["samples_count"], 64)
        accuracies = [entry for entry in entries if entry["key"] == "eval_accuracy"]
        self.assertEqual([entry["metadata"]["epoch_num"] for entry in accuracies], [1, 2])
        self.assertTrue(all(0 <= entry["value"] <= 1 for entry in accuracies))
        stats = [entry for entry in entries if entry["key"] == "tracked_stats"]
        self.assertEqual([entry["metadata"]["step"] for entry in stats], [2, 4, 6, 8])
        self.assertGreater(stats[-1]["value"]["throughput"], 0)

    def test_a_resumed_run_goes_on_in_its_log(self):
        words = ["train", "--synthetic", *SMALL, "--mllog", self.log, "--checkpoint", self.folder / "c"]
        xoe(*words, "--steps", "2")
        xoe(*words, "--steps", "4", "--resume")
        blocks = [entry["metadata"]["samples_count"] for entry in self.entries() if entry["key"] == "block_start"]
        self.assertEqual(blocks, [0, 8])

    def test_a_file_that_cannot_be_written(self):
        error = xoe("train", "--synthetic", *SMALL, "--steps", "1", "--mllog", self.folder / "none" / "log", code=1).stderr
        self.assertIn(str(self.folder / "none" / "log"), error)
        self.assertEqual(error.count("\n"), 1)


if __name__ == "__main__":
    unittest.main()
