"""`xoe train` on ranks that are killed and come back, under `xoe run --min-np`: what stays of batches and learning rates (--on-resize),
and the ledger, which proves that each record of an epoch was trained on exactly once."""

import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
import zlib

XOE = pathlib.Path(os.environ["XOE_BIN_DIR"]) / "xoe"
HANGS = 900  # seconds
RECORDS = 250
EPOCHS = 40  # while ranks are killed


class Job:
    """A training of three ranks, of which one must be left, over the images of `folder`."""

    def __init__(self, folder, *options, ranks=3, restarts=1, name="job", data_threads=0):
        self.folder, self.output = folder, folder / f"{name}.out"
        train = [
            XOE, "train", "--data", folder / "data", "--model", "mlp", "--image-size", 8, "--device", "cpu", "--threads", 1,
            "--data-threads", data_threads, "--report-every", 1, *options,
        ]  # fmt: skip
        run = [XOE, "run", "-np", ranks, "--min-np", 1, "--restarts", restarts, "--timeout", HANGS]
        words = [*run, "sh", "-c", 'echo "pid $$"; exec "$@"', "sh", *train]
        with self.output.open("w") as out:
            self.process = subprocess.Popen(list(map(str, words)), stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)

    def text(self):
        return self.output.read_text()

    def until(self, pattern, times=1):
        end = time.monotonic() + HANGS
        while len(re.findall(pattern, self.text())) < times:
            assert time.monotonic() < end and self.process.poll() is None, f"no {pattern}: {self.text()}"
            time.sleep(0.01)

    def kill(self, slot):
        os.kill(int(re.findall(rf"(?m)^\[{slot}\] pid (\d+)", self.text())[-1]), signal.SIGKILL)

    def others_have_the_state(self):
        """Whether the ranks of the world have trained together, and are two at least: then one can be lost."""
        text = self.text()
        begun = max(text.rfind(" is the first with "), 0)
        ranks = 3 if begun == 0 else int(re.match(r" is the first with (\d)", text[begun:])[1])
        return ranks >= 2 and re.search(r"(?m)^\[\d\] \d+ +[\d.]+ ", text[begun:]) is not None

    def kill_at_random(self, draw, most):
        """Kills ranks, one after the other, until the job ends; gives how many."""
        killed = 0
        while self.process.poll() is None and killed < most:
            time.sleep(draw.uniform(0, 0.3))
            if not self.others_have_the_state():
                continue
            known = r"is the first with|the rank that was to join was killed"
            told = len(re.findall(known, self.text()))
            try:
                self.kill(draw.randrange(3))
            except ProcessLookupError:
                continue
            killed += 1
            end = time.monotonic() + HANGS
            while self.process.poll() is None and len(re.findall(known, self.text())) == told:
                assert time.monotonic() < end, self.text()
                time.sleep(0.01)
        return killed

    def stop(self):
        self.process.terminate()
        return self.process.wait(timeout=HANGS)

    def end(self):
        code = self.process.wait(timeout=HANGS)
        assert code == 0, self.text()


def reports(run):
    lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [line for line in lines if line["event"] == "report"]


def check(*folders, options=()):
    """What xoe data ledger says, and its exit code."""
    done = subprocess.run([XOE, "data", "ledger", "--json", *options, *folders], capture_output=True, text=True, check=False)
    return (json.loads(done.stdout) if done.stdout else {}), done.returncode, done.stderr


class ElasticTest(unittest.TestCase):
    def setUp(self):
        made = tempfile.TemporaryDirectory(prefix="xoe-elastic-")
        self.addCleanup(made.cleanup)
        self.folder = pathlib.Path(made.name)
        make = [XOE, "data", "make", "--images", RECORDS, "--classes", 3, "--size-min", 16, "--size-max", 16, self.folder / "data"]
        subprocess.run(list(map(str, make)), check=True, capture_output=True)

    def start(self, *options, **more):
        job = Job(self.folder, *options, **more)
        self.addCleanup(job.process.wait)
        self.addCleanup(job.process.kill)
        return job

    def sizes_and_rates(self, policy, batch):
        """{ranks: (images of a step, learning rate)} of a training that loses a rank, which comes back."""
        run = self.folder / "run"
        rate = ("--lr", 0.1, "--lr-batch", 100, "--lr-warmup", 0)
        job = self.start("--on-resize", policy, "--batch", batch, *rate, "--steps", 10**6, "--run-dir", run)
        job.until(r"(?m)^\[0\] +5 ")
        job.kill(1)
        job.until(r"is the first with 3 ranks")
        count = len(reports(run))
        end = time.monotonic() + HANGS
        while len(reports(run)) < count + 3:
            assert time.monotonic() < end, job.text()
            time.sleep(0.02)
        job.stop()
        found = {}
        for report in reports(run):
            found.setdefault(report["ranks"], set()).add((report["images_per_step"], round(report["rate"], 6)))
        # The first step after a loss or a join has the new size already.
        self.assertEqual([len(values) for values in found.values()], [1, 1], found)
        return {ranks: values.pop() for ranks, values in found.items()}, job.text()

    def test_the_rate_is_scaled_with_the_ranks(self):
        found, text = self.sizes_and_rates("scale-lr", 4)
        self.assertEqual(found, {3: (12, 0.012), 2: (8, 0.008)})
        self.assertIn("a step has 8 images (scale-lr): 4 for each rank; the learning rate is up to 0.008", text)

    def test_the_global_batch_is_kept_by_other_batches(self):
        found, text = self.sizes_and_rates("keep-global-batch", 5)
        self.assertEqual(found, {3: (15, 0.015), 2: (15, 0.015)})
        self.assertIn("a step has 15 images (keep-global-batch): 7 or 8 for each rank", text)

    def test_batches_and_rate_are_kept(self):
        found, _ = self.sizes_and_rates("keep", 4)
        self.assertEqual(found, {3: (12, 0.012), 2: (8, 0.012)})

    def test_each_record_exactly_once_whatever_is_killed(self):
        seed = random.randrange(2**32)
        keep_batch = ("--on-resize", "keep-global-batch", "--remainder", "keep")
        for data_threads, options in ((0, keep_batch), (2, ("--remainder", "keep", "--accumulate", 2))):
            with self.subTest(options=options, seed=seed):
                ledger = self.folder / f"ledger-{len(options)}-{options[1]}"
                job = self.start("--batch", 2, "--epochs", EPOCHS, "--ledger", ledger, *options, restarts=100, name=ledger.name,
                                 data_threads=data_threads)  # fmt: skip
                job.until(r"(?m)^\[\d\] +3 ")
                killed = job.kill_at_random(random.Random(seed), 8)
                job.end()
                proof, code, said = check(ledger)
                self.assertEqual(code, 0, (proof, said, job.text()))
                # With two passes a step, the last one may reach into another epoch.
                self.assertIn([epoch["epoch"] for epoch in proof["epochs"]], (list(range(EPOCHS)), list(range(EPOCHS + 1))), job.text())
                self.assertLessEqual(sum(epoch["steps"] for epoch in proof["epochs"][EPOCHS:]), 1)
                for epoch in proof["epochs"][:EPOCHS]:
                    self.assertTrue(epoch["exact"] and epoch["records"] == RECORDS and epoch["missing"] == 0, epoch)
                self.assertGreater(killed, 0)
                self.assertGreater(proof["worlds"], 1)
                print(f"{killed} ranks killed, {proof['worlds']} worlds, {len(proof['in_flight'])} entries of steps in flight", flush=True)

    def test_a_rest_that_fills_no_step_is_told(self):
        ledger = self.folder / "ledger"
        job = self.start("--batch", 2, "--epochs", 3, "--ledger", ledger, restarts=5)
        job.until(r"(?m)^\[\d\] +5 ")
        job.kill(2)
        job.end()
        proof, code, _ = check(ledger)
        self.assertEqual(code, 3, proof)
        proof, code, _ = check(ledger, options=("--allow-rest",))
        self.assertEqual(code, 0, proof)
        self.assertTrue(all(epoch["doubled"] == 0 and epoch["missing"] < 6 for epoch in proof["epochs"]), proof)

    def test_a_job_that_is_killed_goes_on_from_its_checkpoint(self):
        ledger, checkpoints = self.folder / "ledger", self.folder / "checkpoints"
        options = ("--batch", 5, "--epochs", 4, "--ledger", ledger, "--on-resize", "keep-global-batch", "--remainder", "keep")
        kept = ("--checkpoint", checkpoints, "--checkpoint-every", 7)
        job = self.start(*options, *kept, restarts=0)
        job.until(r"(?m)^\[\d\] +25 ")
        job.process.kill()
        job.process.wait()
        again = self.start(*options, *kept, "--resume", restarts=0, name="again")
        again.end()
        self.assertRegex(again.text(), r"resumed from step \d+")
        proof, code, said = check(ledger)
        self.assertEqual(code, 0, (proof, said))
        self.assertTrue(all(epoch["exact"] for epoch in proof["epochs"]) and proof["worlds"] == 2, proof)
        # Not with the ledger of another training.
        other = self.folder / "other"
        self.start("--batch", 5, "--epochs", 1, "--ledger", other, "--remainder", "keep", restarts=0, name="other").end()
        mixed = [other if word is ledger else word for word in options]
        refused = self.start(*mixed, *kept, "--resume", restarts=0, name="mixed")
        self.assertNotEqual(refused.process.wait(timeout=HANGS), 0)
        self.assertIn("is of another training than the checkpoint", refused.text())

    def test_another_training_does_not_pass_for_the_one_that_has_the_ledger(self):
        ledger, other = self.folder / "ledger", self.folder / "other"
        options = ("--batch", 5, "--epochs", 1, "--remainder", "keep")
        self.start(*options, "--ledger", ledger, restarts=0).end()
        again = self.start(*options, "--ledger", ledger, restarts=0, name="again")
        self.assertNotEqual(again.process.wait(timeout=HANGS), 0)
        self.assertIn(f"--ledger {ledger} has the ledger of another training, {ledger}/", again.text())
        self.assertIn("--resume", again.text())
        self.assertEqual(check(ledger)[1], 0)
        # Files of both, as two that began at the same time would leave them.
        self.start(*options, "--ledger", other, restarts=0, name="other").end()
        _, code, said = check(ledger, other)
        self.assertEqual(code, 4, said)
        self.assertRegex(said, rf"files of two trainings: {ledger}/\S+ is of \w+, and {other}/\S+ of \w+")

    def weights(self, checkpoints, step):
        file = self.folder / f"{checkpoints.name}-{step}.safetensors"
        source = checkpoints / f"step-{step:08}.ckpt"
        done = subprocess.run([XOE, "train", "export", source, file], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, (done, sorted(checkpoints.iterdir())))
        return file.read_bytes()

    def go_on(self, checkpoints, step, ranks, steps, options):
        """The weights of so many ranks that go on from a checkpoint."""
        folder = self.folder / f"from-{step}-with-{ranks}"
        folder.mkdir()
        shutil.copy(checkpoints / f"step-{step:08}.ckpt", folder)
        kept = ("--checkpoint", folder, "--resume", "--steps", step + steps)
        self.start(*options, *kept, ranks=ranks, name=folder.name).end()
        return self.weights(folder, step + steps)

    def test_a_newcomer_has_the_state_to_the_bit(self):
        # As rank 0 it writes the checkpoints. The rate is the same in each step. The others have images for the ranks that there were, and
        # keep those that are theirs; a job that goes on from a checkpoint has none.
        checkpoints = self.folder / "checkpoints"
        options = ("--batch", 4, "--optimizer", "adamw", "--ema", 0.9, "--lr-schedule", 0.001, "--lr-warmup", 0, "--checkpoint-every", 1,
                   "--checkpoint-keep", 10**6)  # fmt: skip
        job = self.start(*options, "--checkpoint", checkpoints, "--steps", 10**6, data_threads=2)
        job.until(r"(?m)^\[0\] +5 ")
        job.kill(0)
        job.until(r"\[0\] step \d+ is the first with 3 ranks")
        found = re.findall(r"step (\d+) is the first with (\d) ranks", job.text())
        self.assertEqual([ranks for _, ranks in found], ["2", "3"], job.text())
        lost, joined = (int(step) - 1 for step, _ in found)
        job.until(rf"(?m)^\[0\] +{joined + 4} ")
        job.stop()
        self.assertGreater(joined, lost, job.text())
        since = min(joined - lost, 3)
        self.assertEqual(self.go_on(checkpoints, joined - since, 2, since, options), self.weights(checkpoints, joined))
        self.assertEqual(self.go_on(checkpoints, joined, 3, 3, options), self.weights(checkpoints, joined + 3))

    def test_a_timeline_goes_on_and_says_why_steps_have_a_gap(self):
        timeline = self.folder / "timeline.json"
        job = self.start("--batch", 4, "--steps", 10**6, "--timeline", timeline)
        job.until(r"(?m)^\[0\] +5 ")
        job.kill(1)
        job.until(r"\[0\] step \d+ is the first with 3 ranks")
        step = int(re.findall(r"(?m)^\[0\] +(\d+) ", job.text())[-1])
        job.until(rf"(?m)^\[0\] +{step + 5} ")
        job.stop()
        events = json.loads(timeline.read_text())["traceEvents"]
        lanes = {(one["pid"], one["tid"]): one["args"]["name"] for one in events if one["name"] == "thread_name"}
        bars = [one for one in events if one["ph"] == "X"]
        marks = [one for one in bars if lanes[one["pid"], one["tid"]] == "world"]
        names = sorted((one["name"], one["pid"]) for one in marks)
        self.assertRegex(names[0][0], r"^world 1: 2 ranks \(rank 1 lost: .*\)$")
        self.assertEqual(names, [(names[0][0], 0), (names[1][0], 1), *(("world 2: 3 ranks (rank 1 joined)", one) for one in (0, 2))])
        self.assertIn("rank 1 lost: ", names[1][0])
        for mark in marks:
            self.assertGreater(mark["dur"], 0)
        forward = [one["ts"] for one in bars if one["pid"] == 0 and one["name"] == "forward"]
        lost = next(one for one in marks if "lost" in one["name"] and one["pid"] == 0)
        self.assertTrue(min(forward) < lost["ts"] < lost["ts"] + lost["dur"] < max(forward), lost)

    def test_planted_faults_are_found(self):
        ledger = self.folder / "ledger"
        self.start("--batch", 5, "--epochs", 2, "--ledger", ledger, "--remainder", "keep", restarts=0).end()
        self.assertEqual(check(ledger)[1], 0)
        path = sorted(ledger.iterdir())[0]
        good = path.read_bytes()
        lines = good.split(b"\n")
        at = next(i for i, line in enumerate(lines) if line.startswith(b"step "))
        words = lines[at].rsplit(b" ", 1)[0].split(b" ")
        step, rank, epoch = int(words[2]), int(words[3]), int(words[4])

        def plant(changed):
            text = b" ".join(changed)
            path.write_bytes(b"\n".join([*lines[:at], text + b" #%08x" % zlib.crc32(text), *lines[at + 1 :]]))
            return check(ledger)

        # A record is missing.
        proof, code, _ = plant(words[:-1])
        self.assertEqual(code, 3)
        self.assertEqual(proof["epochs"][epoch]["first_missing"], [int(words[-1])])
        # One that is another's is there twice.
        others = next(line for line in lines[at + 1 :] if line.startswith(b"step ")).split(b" ")
        proof, code, _ = plant([*words, others[6]])
        self.assertEqual(code, 3)
        doubled = proof["epochs"][epoch]["first_doubled"]
        self.assertEqual([one["record"] for one in doubled], [int(others[6])])
        self.assertIn({"world": int(words[1]), "step": step, "rank": rank}, doubled[0]["places"])
        # None that the data set has.
        proof, code, _ = plant([*words, b"%d" % RECORDS])
        self.assertEqual((code, proof["epochs"][epoch]["first_unknown"]), (3, [RECORDS]))
        # What a rank consumed is not told, and a byte is another one.
        path.write_bytes(b"\n".join([*lines[:at], *lines[at + 1 :]]))
        proof, code, _ = check(ledger)
        self.assertEqual((code, proof["silent"]), (4, [{"world": int(words[1]), "step": step, "rank": rank}]))
        path.write_bytes(good.replace(lines[at], lines[at].replace(b"step", b"stop"), 1))
        _, code, said = check(ledger)
        self.assertEqual(code, 4)
        self.assertRegex(said, rf"line {at + 1} is damaged")
        # Only one epoch, one that has not been, other numbers of records, and no ledger.
        path.write_bytes(good)
        self.assertEqual(check(ledger, options=("--epoch", "1"))[1], 0)
        self.assertEqual(check(ledger, options=("--epoch", "7"))[1], 5)
        self.assertEqual(check(ledger, options=("--records", f"{RECORDS + 20}"))[1], 3)
        self.assertEqual(check(self.folder / "none")[1], 1)

    def test_what_cannot_be_is_refused(self):
        for words, said in (
            (["--synthetic", "--ledger", self.folder / "ledger"], "--ledger tells of records of --data DIR"),
            (["--data", self.folder / "data", "--remainder", "keep", "--sync-batchnorm"], "--sync-batchnorm would wait"),
            (["--data", self.folder / "data", "--on-resize", "some"], "--on-resize"),
        ):
            done = subprocess.run([XOE, "train", *words], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 2, done)
            self.assertIn(said, done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
