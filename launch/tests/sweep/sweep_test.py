"""`xoe sweep`: real jobs, their results, a sweep that goes on after its end, signals."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "core/testing"))
from watched_process import eventually

XOE = pathlib.Path(os.environ.get("XOE_BIN_DIR", "build/release/bin")) / "xoe"
# Trials run on the CPU, and on this machine alone.
OURS = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS" and not name.startswith("XOE_")}
OURS["CUDA_VISIBLE_DEVICES"] = "-1"
# Is best at x=3.
PARABOLA = 'x={x}; echo "loss: 9"; echo "loss: $(( (x - 3) * (x - 3) ))"'


def sweep(*words, variables=None, timeout=300):
    return subprocess.run([XOE, "sweep", *map(str, words)], env={**OURS, **(variables or {})}, capture_output=True, text=True,
                          timeout=timeout, check=False)


class Sweep(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.dir = self.folder / "sweep"

    def test_the_best_trial_comes_first(self):
        done = sweep("--set", "x=1,2,3,4", "--metric", "loss", "--goal", "min", "--dir", self.dir, "--", "sh", "-c", PARABOLA)
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = [row.split() for row in done.stdout.splitlines()]
        self.assertEqual([row[-1] for row in rows], ["x=3", "x=2", "x=4", "x=1"])
        self.assertEqual([row[3] for row in rows], ["0", "1", "1", "4"])
        self.assertIn("4 trials", done.stderr)
        self.assertEqual((self.dir / "trial.1/output.txt").read_text(), "loss: 9\nloss: 4\n")
        last = sweep("--set", "x=1,2,3,4", "--metric", "loss", "--dir", self.dir, "--json", "--", "sh", "-c", PARABOLA)
        self.assertEqual(json.loads(last.stdout)["best"], 1)
        self.assertIn("4 done before", last.stderr)
        self.assertNotIn("begins", last.stderr)

    def test_a_random_search_draws_the_same_again(self):
        words = ("--set", "lr=log:1e-4..1e-1", "--random", 5, "--seed", 3, "--dir", self.dir, "--list", "--", "true")
        first = sweep(*words)
        self.assertEqual(first.returncode, 0, first.stderr)
        self.assertEqual(len(set(first.stdout.splitlines())), 5)
        self.assertEqual(sweep(*words).stdout, first.stdout)
        self.assertFalse(self.dir.exists())

    def test_parameters_that_the_command_does_not_name_are_added(self):
        done = sweep("--set", "lr=0.5", "--set", "b=2", "--dir", self.dir, "--", "sh", "-c", "echo $0 $@ {dir} {trial} {b}")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((self.dir / "trial.1/output.txt").read_text(), f"--lr=0.5 {self.dir}/trial.1 1 2\n")

    def test_failures_are_told_and_run_again(self):
        script = f'[ {{x}} = 2 ] && [ ! -e {self.folder}/mended ] && {{ echo "no such layer" >&2; exit 3; }}; echo run >> {{dir}}/runs'
        words = ("--set", "x=1,2,3", "--jobs", 1, "--dir", self.dir, "--", "sh", "-c", script)
        failed = sweep(*words)
        self.assertEqual(failed.returncode, 1, failed.stderr)
        self.assertRegex(failed.stdout, r"trial 2 +failed: exit code 3: .*no such layer.*x=2")
        self.assertEqual(json.loads(sweep(*words[:4], "--stop-at-failure", "--json", *words[4:]).stdout)["trials"][1]["state"], "failed")
        (self.folder / "mended").touch()
        self.assertEqual(sweep(*words).returncode, 0)
        for trial in (1, 2, 3):
            self.assertEqual((self.dir / f"trial.{trial}/runs").read_text(), "run\n")

    def test_no_other_trial_begins_after_a_failure(self):
        done = sweep("--set", "x=1,2,3", "--jobs", 1, "--stop-at-failure", "--dir", self.dir, "--json", "--", "sh", "-c", "[ {x} != 2 ]")
        self.assertEqual([trial["state"] for trial in json.loads(done.stdout)["trials"]], ["done", "failed", "not run"])
        self.assertEqual(done.returncode, 1)

    def test_a_trial_without_the_metric_has_failed(self):
        done = sweep("--set", "x=1", "--metric", "accuracy", "--dir", self.dir, "--", "echo", "loss=1")
        self.assertEqual(done.returncode, 1)
        self.assertIn("it ended well, but printed no accuracy", done.stdout)

    def test_the_metric_may_come_from_the_file_of_a_run(self):
        script = """echo '{"step": 1, "accuracy": 0.5}' > {dir}/metrics.jsonl; echo '{"accuracy": 0.{x}}' >> {dir}/metrics.jsonl"""
        done = sweep("--set", "x=7,8", "--metric", "accuracy", "--dir", self.dir, "--json", "--", "sh", "-c", script)
        self.assertEqual([trial["value"] for trial in json.loads(done.stdout)["trials"]], [0.7, 0.8])
        self.assertEqual(json.loads(done.stdout)["best"], 2)

    def test_each_rank_has_a_gpu_of_its_own(self):
        done = sweep("--set", "x=1,2", "-n", 2, "--dir", self.dir, "--", "sh", "-c", "echo $XOE_RANK $CUDA_VISIBLE_DEVICES {x}",
                     variables={"CUDA_VISIBLE_DEVICES": "a,b,c,d,e"})
        self.assertEqual(done.returncode, 0, done.stderr)
        seen = {line for trial in (1, 2) for line in (self.dir / f"trial.{trial}/output.txt").read_text().splitlines()}
        gpus = {line.split()[2] for line in seen}
        self.assertEqual(gpus, {"a", "b", "c", "d"})
        self.assertIn("2 trials, 2 at a time", done.stderr)

    def test_cores_are_shared_out(self):
        done = sweep("--set", "x=1,2", "--jobs", 2, "--dir", self.dir, "--json", "--", "sh", "-c", "echo $OMP_NUM_THREADS")
        self.assertEqual(done.returncode, 0, done.stderr)
        threads = int((self.dir / "trial.1/output.txt").read_text())
        self.assertTrue(1 <= threads <= max(1, os.cpu_count() // 2), threads)

    def test_a_signal_ends_the_trials_and_the_sweep_goes_on_later(self):
        script = f"[ {{x}} = 1 ] || [ -e {self.folder}/go ] || {{ echo $$ > {{dir}}/pid; exec sleep 1000; }}"
        words = ("--set", "x=1,2,3", "--jobs", 1, "--dir", self.dir, "--json", "--", "sh", "-c", script)
        with subprocess.Popen([XOE, "sweep", *map(str, words)], env=OURS, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
            pid_file = self.dir / "trial.2/pid"
            self.assertTrue(eventually(lambda: pid_file.exists() and pid_file.read_text().strip(), 120))
            other = sweep(*words)
            self.assertEqual(other.returncode, 1)
            self.assertIn("another xoe sweep works in", other.stderr)
            running.send_signal(signal.SIGINT)
            out, err = running.communicate(timeout=120)
        self.assertEqual(running.returncode, 128 + signal.SIGINT, err)
        self.assertEqual([trial["state"] for trial in json.loads(out)["trials"]], ["done", "not run", "not run"])
        self.assertFalse(pathlib.Path("/proc", pid_file.read_text().strip()).exists())
        (self.folder / "go").touch()
        again = sweep(*words)
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertNotIn("trial 1 of 3 begins", again.stderr)

    def test_a_sweep_that_is_killed_leaves_no_process(self):
        words = ("--set", "x=1,2", "--jobs", 2, "--dir", self.dir, "--", "sh", "-c", "echo $$ > {dir}/pid; exec sleep 1000")
        with subprocess.Popen([XOE, "sweep", *map(str, words)], env=OURS, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
            files = [self.dir / f"trial.{trial}/pid" for trial in (1, 2)]
            self.assertTrue(eventually(lambda: all(file.exists() and file.read_text().strip() for file in files), 120))
            running.kill()
        for file in files:
            self.assertTrue(eventually(lambda file=file: not pathlib.Path("/proc", file.read_text().strip()).exists(), 120))

    def test_a_trial_has_a_time_limit(self):
        began = time.monotonic()
        done = sweep("--set", "x=1", "--timeout", 1, "--dir", self.dir, "--", "sh", "-c", "exec sleep 1000 # {x}")
        self.assertEqual(done.returncode, 1)
        self.assertIn("exit code 124", done.stdout)
        self.assertLess(time.monotonic() - began, 250)

    def test_a_trial_that_diverged_does_not_win(self):
        script = 'echo loss=0.1; [ {x} = 1 ] && echo loss=nan || echo loss=0.5'
        done = sweep("--set", "x=1,2", "--metric", "loss", "--goal", "min", "--dir", self.dir, "--json", "--", "sh", "-c", script)
        self.assertEqual(json.loads(done.stdout)["best"], 2)
        self.assertEqual(json.loads(done.stdout)["trials"][0]["problem"], "its last loss is no number")

    def test_trials_stay_on_this_machine_within_a_batch_job(self):
        nodes = self.folder / "nodes"
        nodes.write_text("elsewhere\nelsewhere\n")
        for job in ({"PBS_JOBID": "1", "PBS_NODEFILE": str(nodes)}, {"SLURM_JOB_ID": "1", "SLURM_JOB_NODELIST": "elsewhere"}):
            done = sweep("--set", "x=1", "-n", 2, "--dir", self.folder / next(iter(job)), "--", "echo", variables=job)
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_trial_that_runs_again_begins_in_an_empty_folder(self):
        script = f"ls {{dir}}; [ -e {self.folder}/mended ] || {{ touch {{dir}}/left; exit 1; }}"
        words = ("--set", "x=1", "--dir", self.dir, "--", "sh", "-c", script)
        self.assertEqual(sweep(*words).returncode, 1)
        (self.folder / "mended").touch()
        self.assertEqual(sweep(*words).returncode, 0)
        self.assertNotIn("left", (self.dir / "trial.1/output.txt").read_text())
        self.assertTrue((self.dir / "trial.1-1/left").exists())

    def test_a_trial_has_signals_as_they_were(self):
        done = sweep("--set", "x=1", "--dir", self.dir, "--", "sh", "-c", "trap; yes | head -n 1; kill -PIPE $$; echo survived")
        self.assertEqual(done.returncode, 1)
        self.assertNotIn("survived", (self.dir / "trial.1/output.txt").read_text())

    def test_mistakes(self):
        for words, said in ((("--set", "lr=0..1"), "--random N"), (("--set", "lr"), "expected NAME=A,B,C"),
                            (("--set", "x=1", "--set", "x=2"), "x is there already"), (("--set", "dir=1"), "the trial's own")):
            done = sweep(*words, "--dir", self.dir, "--", "true")
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(said, done.stderr)
        sweep("--set", "x=1", "--dir", self.dir, "--", "true")
        done = sweep("--set", "x=2", "--dir", self.dir, "--", "true")
        self.assertEqual(done.returncode, 2)
        self.assertIn("choose another --dir", done.stderr)


if __name__ == "__main__":
    unittest.main()
