"""What MLflow shows of `xoe train --mlflow`, and what Weights & Biases takes from a run's folder by the reference's few lines."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "core/testing"))
from peer_python import run_inside

run_inside("trackers", "mlflow", {"MLFLOW_ALLOW_FILE_STORE": "true"})

from mlflow.store.tracking.file_store import FileStore

BIN = pathlib.Path(os.environ["XOE_BIN_DIR"])
SMALL = ["--model", "mlp", "--image-size", "8", "--classes", "4", "--batch", "4", "--report-every", "2"]


def xoe(*words):
    subprocess.run([BIN / "xoe", *map(str, words)], check=True, capture_output=True, text=True, timeout=300)


class Trackers(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.store = self.folder / "ml runs"

    def runs(self):
        return FileStore(str(self.store)).search_runs(["0"], "", 1)

    def history(self, run, name):
        """Step and value of each entry."""
        return [(entry.step, entry.value) for entry in FileStore(str(self.store)).get_metric_history(run.info.run_id, name)]

    def test_mlflow_has_parameters_and_curves(self):
        xoe("run", "-np", "2", BIN / "xoe", "train", "--synthetic", *SMALL, "--steps", "6", "--lr", "0.05", "--mlflow", self.store,
            "--run-dir", self.folder / "run")
        (run,) = self.runs()
        self.assertEqual((run.info.status, run.info.run_name), ("FINISHED", "mlp on 2 ranks"))
        self.assertGreaterEqual(run.info.end_time, run.info.start_time)
        self.assertEqual((run.data.params["batch"], run.data.params["learning_rate"], run.data.params["model"]), ("4", "0.05", "mlp"))
        lines = [json.loads(line) for line in (self.folder / "run/metrics.jsonl").read_text().splitlines()]
        reports = [line for line in lines if line["event"] == "report"]
        self.assertEqual([step for step, _ in self.history(run, "loss/train")], [report["step"] for report in reports])
        for (_, value), report in zip(self.history(run, "loss/train"), reports, strict=True):
            self.assertAlmostEqual(value, report["loss"], places=5)
        FileStore(str(self.store)).set_experiment_tag("0", mlflow_tag("team"))  # it is a store that MLflow can go on with

    def test_a_resumed_run_is_the_same_one(self):
        words = ["train", "--synthetic", *SMALL, "--checkpoint", self.folder / "c", "--mlflow", self.store]
        xoe(*words, "--steps", "4")
        xoe(*words, "--steps", "8", "--resume")
        (run,) = self.runs()
        self.assertEqual([step for step, _ in self.history(run, "loss/train")], [2, 4, 6, 8])
        xoe("train", "--synthetic", *SMALL, "--steps", "2", "--mlflow", self.store)
        self.assertEqual(len(self.runs()), 2)

    def test_weights_and_biases_by_the_lines_of_the_reference(self):
        xoe("train", "--synthetic", *SMALL, "--steps", "6", "--run-dir", self.folder / "run")
        page = (ROOT / "docs/reference/train.md").read_text()
        (program,) = [block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "wandb" in block]
        program = program.replace("runs/a", str(self.folder / "run"))
        shown = "run.log({}, commit=True)\nprint(run.summary['loss'], run.summary['_step'])\nrun.finish()"
        program = program.replace("run.finish()", shown)
        done = subprocess.run([sys.executable, "-c", program], cwd=self.folder, capture_output=True, text=True, timeout=300,
                              env={**os.environ, "WANDB_MODE": "offline", "WANDB_SILENT": "true"}, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [json.loads(line) for line in (self.folder / "run/metrics.jsonl").read_text().splitlines()]
        last = [line for line in lines if line["event"] == "report"][-1]
        loss, step = done.stdout.split()
        self.assertAlmostEqual(float(loss), last["loss"])
        self.assertEqual(int(step), last["step"])


def mlflow_tag(value):
    from mlflow.entities import ExperimentTag

    return ExperimentTag("owner", value)


if __name__ == "__main__":
    unittest.main()
