"""TensorBoard reads the event files of `xoe train --run-dir`, also of a run that was resumed: no step twice, none missing."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "core/testing"))
from peer_python import run_inside

run_inside("tfdata", "tensorboard", {})

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

BIN = pathlib.Path(os.environ["XOE_BIN_DIR"])
TAGS = {"loss/train", "accuracy/train", "rate", "images_per_second"}
TAGS |= {f"share/{part}" for part in ("data", "compute", "peers", "optimizer")}
HELD_OUT = {"loss/held-out", "accuracy/held-out"}


def xoe(*words):
    subprocess.run([BIN / "xoe", *words], check=True, capture_output=True, text=True, timeout=300)


class TensorBoard(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def events(self, run):
        return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]

    def assert_same(self, run, tags, events=None):
        """TensorBoard's curves, of the run's folder or of the folder `events`, are those of metrics.jsonl."""
        board = EventAccumulator(str(events or run))
        board.Reload()
        self.assertEqual(set(board.Tags()["scalars"]), tags)
        kinds = {"report": "train", "evaluation": "held-out"}
        for event, kind in kinds.items():
            for value in ("loss", "accuracy"):
                tag = f"{value}/{kind}"
                written = [(one["step"], one[value]) for one in self.events(run) if one["event"] == event]
                shown = board.Scalars(tag) if tag in tags else []
                self.assertEqual([step for step, _ in written], [one.step for one in shown])
                for (_, number), one in zip(written, shown, strict=True):
                    self.assertAlmostEqual(number, one.value, delta=1e-6 * abs(number))
                times = [one.wall_time for one in shown]
                self.assertEqual(times, sorted(times))

    def train(self, run, *more):
        network = ["--model", "mlp", "--image-size", "8", "--batch", "4", "--device", "cpu"]
        xoe("train", "--synthetic", *network, "--report-every", "1", "--run-dir", run, *more)

    def test_a_run(self):
        data, run = self.folder / "data", self.folder / "run"
        xoe("data", "make", "--images", "40", "--validation", "10", "--classes", "3", data)
        words = ["--data", data, "--model", "mlp", "--image-size", "8", "--batch", "4", "--device", "cpu", "--epochs", "2"]
        xoe("run", "-np", "2", BIN / "xoe", "train", *words, "--report-every", "1", "--run-dir", run)
        self.assert_same(run, TAGS | HELD_OUT)
        (file,) = run.glob("events.out.tfevents.*")
        versions = [event.file_version for event in EventFileLoader(str(file)).Load() if event.file_version]
        self.assertEqual(versions, ["brain.Event:2"])

    def test_a_folder_for_the_event_files_alone(self):
        run, board, alone = self.folder / "run", self.folder / "boards" / "a", self.folder / "alone"
        self.train(run, "--steps", "3", "--tensorboard", board)
        self.assertEqual([file.name[:20] for file in board.iterdir()], ["events.out.tfevents."])
        self.assert_same(run, TAGS, board)
        small = ["--model", "mlp", "--image-size", "8", "--batch", "4", "--device", "cpu", "--steps", "2"]
        xoe("train", "--synthetic", *small, "--tensorboard", alone)
        (file,) = alone.iterdir()
        self.assertEqual([event.step for event in EventFileLoader(str(file)).Load() if event.HasField("summary")], [2])

    def test_a_resumed_run_has_no_step_twice(self):
        run, checkpoints = self.folder / "run", self.folder / "checkpoints"
        saved = ["--checkpoint", checkpoints, "--checkpoint-every", "4"]
        self.train(run, "--steps", "10", *saved)
        # As after a kill between steps 8 and 10.
        (checkpoints / "step-00000010.ckpt").unlink()
        last = max(run.glob("events.out.tfevents.*"))
        last.write_bytes(last.read_bytes()[:-7])
        self.train(run, "--steps", "14", *saved, "--resume")
        self.assertEqual(len(list(run.glob("events.out.tfevents.*"))), 2)
        self.assertEqual([one["step"] for one in self.events(run) if one["event"] == "report"], list(range(1, 15)))
        self.assert_same(run, TAGS)


if __name__ == "__main__":
    unittest.main()
