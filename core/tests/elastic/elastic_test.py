"""xoe::elastic::run() with ranks that are killed, join and leave, under `xoe run`; and the marks of its timeline.

  elastic_test.py TRAINING [TEST...]
"""

import itertools
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

XOE = pathlib.Path(os.environ["XOE_BIN_DIR"]) / "xoe"
TRAINING = sys.argv.pop(1)  # the program elastic_training
HANGS = 900  # seconds


class Job:
    def __init__(self, folder, *options, commit_every=1, before=(), **variables):
        self.folder, self.output = folder, folder / "output"
        words = [XOE, "run", *options, "--timeout", HANGS, *before, TRAINING, folder, commit_every]
        kept = {name: value for name, value in os.environ.items() if not name.startswith("XOE_")}
        with self.output.open("w") as out:
            self.process = subprocess.Popen(
                list(map(str, words)), env={**kept, **variables}, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT
            )

    def text(self):
        return self.output.read_text()

    def until(self, pattern, times=1):
        """Waits until the output has it so often; gives the last."""
        end = time.monotonic() + HANGS
        while len(found := re.findall(pattern, self.text())) < times:
            assert time.monotonic() < end and self.process.poll() is None, f"no {pattern}: {self.text()}"
            time.sleep(0.01)
        return found[-1]

    def begins(self, slot, size, times=1):
        """Waits until the rank of a slot has begun in a world of this size; gives its pid."""
        return int(self.until(rf"\[{slot}\] pid (\d+) rank \d+ of {size} begins", times))

    def steps_by(self, slot, size, more):
        pattern = rf"\[{slot}\] pid \d+ rank \d+ of {size} has done step (\d+)"
        self.until(pattern, len(re.findall(pattern, self.text())) + more)

    def steps(self, slot):
        return [int(step) for step in re.findall(rf"\[{slot}\] .* has done step (\d+)", self.text())]

    def ended(self):
        return self.process.wait(timeout=HANGS), self.text()

    def end(self):
        (self.folder / "stop").touch()
        return self.ended()


def world_marks(path):
    """{rank: [(name, microseconds, note)]} of a timeline."""
    events = json.loads(path.read_text())["traceEvents"]
    lanes = {(one["pid"], one["tid"]): one["args"]["name"] for one in events if one["name"] == "thread_name"}
    marks = {}
    for one in events:
        if one["ph"] == "X" and lanes[one["pid"], one["tid"]] == "world":
            marks.setdefault(one["pid"], []).append((one["name"], one["dur"], one.get("args", {}).get("note", "")))
    return marks, events, lanes


class ElasticTest(unittest.TestCase):
    def setUp(self):
        made = tempfile.TemporaryDirectory(prefix="xoe-elastic-")
        self.addCleanup(made.cleanup)
        self.folder = pathlib.Path(made.name)

    def start(self, *options, **more):
        job = Job(self.folder, *options, **more)
        self.addCleanup(job.process.wait)
        self.addCleanup(job.process.kill)
        return job

    def assert_ended(self, job, ranks, losses):
        code, text = job.end()
        self.assertEqual(code, 0, text)
        ends = re.findall(r"ended after step (\d+): total (\d+), \d+ worlds, (\d+) loss", text)
        self.assertEqual(len(ends), ranks, text)
        self.assertEqual(len({end[:2] for end in ends}), 1, text)
        self.assertEqual(max(int(end[2]) for end in ends), losses, text)

    def test_survivors_go_on_and_a_restarted_rank_gets_their_state(self):
        for victim in (1, 0):
            with self.subTest(victim=victim):
                self.setUp()
                timeline = self.folder / "timeline.json"
                job = self.start("-np", 3, "--min-np", 1, "--restarts", 1, XOE_TIMELINE=str(timeline))
                pids = [job.begins(slot, 3) for slot in range(3)]
                job.steps_by(0, 3, 5)
                os.kill(pids[victim], signal.SIGKILL)
                others = [slot for slot in range(3) if slot != victim]
                self.assertEqual([job.begins(slot, 2) for slot in others], [pids[slot] for slot in others])
                self.assertNotEqual(job.begins(victim, 3, times=2), pids[victim])
                job.steps_by(victim, 3, 5)
                self.assert_ended(job, 3, 1)
                for slot in others:
                    steps = job.steps(slot)
                    again = sum(1 for before, after in itertools.pairwise(steps) if after == before)
                    self.assertEqual(len(steps) - again, steps[-1], "no step is left out")
                    self.assertLessEqual(again, 1, "the one in flight alone is done again")
                self.assert_marked(timeline, victim, others)

    def assert_marked(self, timeline, victim, others):
        """Each survivor has a bar for each change, between its steps, in the one file."""
        marks, events, lanes = world_marks(timeline)
        lost, joined = [], []
        for rank, found in marks.items():
            for name, duration, note in found:
                self.assertGreater(duration, 0)
                (lost if "lost" in name else joined).append((rank, name, note))
        self.assertEqual(len(lost), 2, marks)
        for rank, name, note in lost:
            self.assertRegex(name, rf"^world 1: 2 ranks \(rank {victim} lost: .*rank {victim}.*\)$")
            self.assertEqual(note, f"rank {others[rank]} before" if others[rank] != rank else "")
        self.assertEqual([name for _, name, _ in joined], [f"world 2: 3 ranks (rank {victim} joined)"] * 2, marks)
        # The file has steps before and after it, in the same lanes. What a killed rank had not written is not there.
        rank = 0 if victim == 1 else 1
        bars = [one for one in events if one["ph"] == "X" and one["pid"] == rank]
        lost = next(one for one in bars if "lost" in one["name"])
        steps = [one for one in bars if one["name"] == "ones" and lanes[rank, one["tid"]] == "engine: reduce"]
        first, last = min(one["ts"] for one in steps), max(one["ts"] for one in steps)
        self.assertTrue(first < lost["ts"] < lost["ts"] + lost["dur"] < last, (lost, first, last))
        self.assertEqual(len({one["tid"] for one in steps}), 1)

    def test_the_first_world_forms_without_a_rank_that_fails_before(self):
        fails = ("sh", "-c", '[ "$XOE_RANK" = 1 ] && exit 3; exec "$@"', "sh")
        job = self.start("-np", 3, "--min-np", 2, before=fails)
        for slot in (0, 2):
            job.begins(slot, 2)
        job.steps_by(2, 2, 5)
        code, text = job.end()
        self.assertEqual(code, 0, text)
        self.assertRegex(text, r"rank 1 \(.*\) exited with code 3 after .*; 2 ranks go on")
        self.assertIn("no world has formed yet: the first one is without rank 1", text)

    def test_with_too_few_before_the_first_world_the_job_ends_and_says_why(self):
        fails = ("sh", "-c", '[ "$XOE_RANK" = 1 ] && exit 3; exec "$@"', "sh")
        job = self.start("-np", 2, "--min-np", 2, before=fails)
        code, text = job.ended()
        self.assertEqual(code, 3, text)
        self.assertRegex(text, r"rank 1 \(.*\) exited with code 3")

    def test_the_timelines_of_hosts_that_come_and_go_are_merged(self):
        hosts, timeline = self.folder / "hosts", self.folder / "run.json"

        def name(text):
            (self.folder / "new").write_text(text)
            (self.folder / "new").rename(hosts)

        name("localhost:1\n127.0.0.1:1\n")
        options = ("--host-discovery-script", f"cat {hosts}", "--min-np", 1, "--max-np", 2)
        job = self.start(*options, XOE_TIMELINE=str(timeline))
        for slot in range(2):
            job.begins(slot, 2)
        job.steps_by(0, 2, 5)
        name("127.0.0.1:1\n")  # the host of rank 0 goes
        job.begins(1, 1)
        job.steps_by(1, 1, 5)
        name("localhost:1\n127.0.0.1:1\n")
        job.begins(0, 2, times=2)
        job.steps_by(0, 2, 5)
        self.assert_ended(job, 2, 0)
        files = sorted(self.folder.glob("run*.json"))
        merged = self.folder / "merged.json"
        done = subprocess.run([XOE, "timeline", "merge", merged, *files], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, (files, done.stderr))
        marks, events, lanes = world_marks(merged)
        self.assertIn("world 1: 1 rank (rank 0 left)", [name for name, _, _ in marks[0]], marks)
        bars = [(lanes[one["pid"], one["tid"]], one["name"]) for one in events if one["ph"] == "X"]
        self.assertEqual({lane for lane, name in bars if name.startswith("world ")}, {"world"})
        steps = [lane for lane, name in bars if (lane, name) == ("engine: reduce", "ones")]
        done_steps = [step for slot in range(2) for step in job.steps(slot)]
        self.assertEqual(len(steps), len(done_steps), "each step of each rank is there")

    def test_what_was_not_committed_is_done_again(self):
        job = self.start("-np", 2, "--min-np", 1, commit_every=10)
        pids = [job.begins(slot, 2) for slot in range(2)]
        job.until(r"\[0\] .* has done step 26")
        os.kill(pids[1], signal.SIGKILL)
        job.steps_by(0, 1, 5)
        began = [int(step) for step in re.findall(r"\[0\] .* of 1 begins after step (\d+)", job.text())]
        self.assertTrue(began[0] >= 20 and began[0] % 10 == 0, job.text())
        self.assert_ended(job, 1, 1)

    def test_a_host_that_is_named_no_more_leaves_with_notice(self):
        hosts = self.folder / "hosts"
        hosts.write_text("localhost:1\n127.0.0.1:1\n")
        job = self.start("--host-discovery-script", f"cat {hosts}", "--min-np", 1, "--max-np", 2)
        pids = [job.begins(slot, 2) for slot in range(2)]
        job.steps_by(0, 2, 5)
        (self.folder / "new").write_text("localhost:1\n")
        (self.folder / "new").rename(hosts)
        self.assertEqual(job.begins(0, 1), pids[0])
        job.steps_by(0, 1, 5)
        self.assert_ended(job, 1, 0)
        text = job.text()
        self.assertEqual(len(re.findall(r"\[1\] .* leaves", text)), 2, text)  # the callback, and the log
        self.assertIn("ends a world", text)
        steps = job.steps(0)
        self.assertEqual(steps, list(range(1, len(steps) + 1)), "no step is lost or done again")

    def test_with_too_few_ranks_the_loss_ends_the_job(self):
        job = self.start("-np", 2, "--min-np", 2)
        pids = [job.begins(slot, 2) for slot in range(2)]
        job.steps_by(0, 2, 5)
        os.kill(pids[1], signal.SIGKILL)
        code, text = job.ended()
        self.assertNotEqual(code, 0, text)
        self.assertIn("rank 1", text)

    def test_an_error_of_the_step_ends_the_run(self):
        job = self.start("-np", 2, "--min-np", 1)
        for slot in range(2):
            job.begins(slot, 2)
        (self.folder / "fail").touch()
        code, text = job.ended()
        self.assertNotEqual(code, 0, text)
        self.assertIn("error: data_loss: a step that fails", text)


if __name__ == "__main__":
    unittest.main()
