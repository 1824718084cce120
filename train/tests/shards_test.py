"""`xoe train --logical-shards`: any number of ranks, and any change of them, gives the same weights to the bit, the same losses and the
same evaluations; and what cannot keep that promise is refused."""

import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import types
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "bench" / "elastic"))
import shards

XOE = pathlib.Path(os.environ["XOE_BIN_DIR"]) / "xoe"
HANGS = 900  # seconds
RECORDS = 61


def run(*words):
    return subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)


def told_by(run_folder):
    """The losses and accuracies of a run, training and evaluation."""
    lines = map(json.loads, (run_folder / "metrics.jsonl").read_text().splitlines())
    return [(line["event"], line["step"], line["loss"], line["accuracy"]) for line in lines if line["event"] in ("report", "evaluation")]


class ShardsTest(unittest.TestCase):
    def setUp(self):
        made = tempfile.TemporaryDirectory(prefix="xoe-shards-")
        self.addCleanup(made.cleanup)
        self.folder = pathlib.Path(made.name)
        self.runs = 0

    def make_data(self):
        sizes = ["--images", RECORDS, "--classes", 3, "--size-min", 16, "--size-max", 16]
        made = run(XOE, "data", "make", *sizes, self.folder / "data")
        self.assertEqual(made.returncode, 0, made)
        return ["--data", self.folder / "data"]

    def train(self, ranks, *options, checkpoints=None):
        """The weights and the optimizer's averages at the end, and what was told."""
        self.runs += 1
        checkpoints, folder = checkpoints or self.folder / f"checkpoints-{self.runs}", self.folder / f"run-{self.runs}"
        ended = run(
            XOE, "run", "-np", ranks, "--timeout", HANGS, XOE, "train", "--device", "cpu", "--report-every", 1, "--lr-warmup", 0,
            *([] if "--lr-schedule" in options else ["--lr", 0.02]), *options, "--checkpoint", checkpoints, "--run-dir", folder,
        )  # fmt: skip
        self.assertEqual(ended.returncode, 0, ended)
        file = self.folder / f"{self.runs}.safetensors"
        exported = run(XOE, "train", "export", max(checkpoints.glob("*.ckpt")), file)
        self.assertEqual(exported.returncode, 0, exported)
        return file.read_bytes(), told_by(folder)

    def same_on_all(self, ranks, *options):
        expected = self.train(ranks[0], *options)
        self.assertTrue(expected[1])
        for number in ranks[1:]:
            weights, told = self.train(number, *options)
            self.assertEqual(told, expected[1], f"{number} ranks")
            self.assertEqual(weights, expected[0], f"{number} ranks")
        return expected

    def test_synthetic_images(self):
        self.same_on_all(
            (1, 2, 3, 4), "--synthetic", "--model", "resnet18", "--image-size", 32, "--classes", 10, "--batch", 2, "--steps", 3,
            "--logical-shards", 4,
        )  # fmt: skip

    def test_images_that_are_distorted(self):
        # Batch norm, an average of the weights, evaluation, several epochs; neither the shards nor the records come out even.
        options = ["--model", "resnet20", "--image-size", 16, "--batch", 3, "--epochs", 3, "--optimizer", "adamw", "--ema", 0.9]
        _, told = self.same_on_all((1, 2, 3, 4, 5), *self.make_data(), *options, "--logical-shards", 5)
        self.assertTrue(any(event == "evaluation" for event, *_ in told))

    def test_dropout(self):
        options = ["--synthetic", "--model", "mobilenet_v2", "--image-size", 32, "--classes", 4, "--batch", 2, "--steps", 2]
        self.same_on_all((1, 3), *options, "--logical-shards", 3)

    def test_precision_and_clipping(self):
        options = ["--model", "resnet20", "--image-size", 16, "--batch", 2, "--steps", 6, "--remainder", "pad", "--clip-norm", 0.5]
        self.same_on_all((1, 2), *self.make_data(), *options, "--precision", "bf16", "--logical-shards", 7)

    def test_other_ranks_go_on_from_a_checkpoint(self):
        options = [*self.make_data(), "--model", "resnet20", "--image-size", 16, "--batch", 2, "--logical-shards", 6, "--lr-schedule", 0.01]
        expected, told = self.train(2, *options, "--steps", 9)
        checkpoints = self.folder / "kept"
        self.train(1, *options, "--steps", 4, checkpoints=checkpoints)
        self.train(4, *options, "--steps", 7, "--resume", checkpoints=checkpoints)
        weights, rest = self.train(3, *options, "--steps", 9, "--resume", checkpoints=checkpoints)
        self.assertEqual(weights, expected)
        self.assertEqual([line for line in rest if line[0] == "report"], [line for line in told if line[0] == "report" and line[1] > 7])
        # Other shards are another training.
        done = run(XOE, "train", *options[:-4], "--logical-shards", 8, "--steps", 20, "--device", "cpu", "--resume", "--checkpoint", checkpoints)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("logical shards 6, this one has 8", done.stderr)

    def test_without_them_the_number_of_ranks_shows(self):
        # Or else these tests could find nothing.
        options = [*self.make_data(), "--model", "resnet20", "--image-size", 16, "--steps", 3]
        self.assertNotEqual(self.train(1, *options, "--batch", 6)[0], self.train(3, *options, "--batch", 2)[0])

    def test_kill_leave_and_join(self):
        options = types.SimpleNamespace(bin=XOE.parent, steps=60, shards=6, model="resnet20", seconds=HANGS)
        program = shards.Train(options)
        program.prepare(self.folder)
        expected, _ = shards.train(program, self.folder / "undisturbed", False, 1)
        for hosts in (False, True):
            with self.subTest(hosts=hosts):
                weights, happened = shards.train(program, self.folder / str(hosts), hosts, 3, random.Random(1))
                print(f"{'hosts' if hosts else 'one host'}: {dict(happened)}", flush=True)
                self.assertEqual(weights, expected)
                self.assertGreater(happened["kill"] + happened["leave"], 0)

    def test_what_cannot_keep_the_promise_is_refused(self):
        for words, said in (
            (["--on-resize", "scale-lr"], "leave out --on-resize"),
            (["--on-resize", "keep"], "leave out --on-resize"),
            (["--sync-batchnorm"], "leave out --sync-batchnorm"),
            (["--sharded"], "leave out --sharded"),
            (["--accumulate", 2], "in place of --accumulate 2 give 8 shards"),
            (["--remainder", "keep"], "give --remainder drop or pad"),
            (["--max-bad", 1], "leave out --max-bad"),
        ):
            done = run(XOE, "train", "--synthetic", "--model", "mlp", "--image-size", 8, "--steps", 1, "--logical-shards", 4, *words)
            self.assertNotEqual(done.returncode, 0, words)
            self.assertIn(said, done.stderr, words)
        few = run(XOE, "run", "-np", 3, XOE, "train", "--synthetic", "--model", "mlp", "--image-size", 8, "--steps", 1, "--logical-shards", 2)
        self.assertNotEqual(few.returncode, 0)
        self.assertIn("3 ranks share 2 logical shards, and each needs one", few.stderr)


if __name__ == "__main__":
    unittest.main()
