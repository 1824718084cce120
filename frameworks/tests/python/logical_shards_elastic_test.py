"""A training with logical shards under `xoe run --min-np` has the bits of one rank that was left alone, whatever is killed and joins."""

import json
import os
import random
import re
import signal
import subprocess

import ranks
import running_job

TRAINING = ranks.ROOT / "frameworks/tests/python/logical_shards_training.py"


class Job(running_job.RunningJob):
    def __init__(self, folder, name, size, *options, steps=300):
        self.output = folder / name
        words = [ranks.BUILD / "bin" / "xoe", "run", "-np", size, *options, "--timeout", ranks.HANGS]
        self.go = folder / f"{name}.go"
        program = [ranks.interpreter(), TRAINING, "--shards", 7, "--steps", steps, "--hold", f"{steps // 2}:{self.go}"]
        with self.output.open("w") as out:
            self.process = subprocess.Popen(
                list(map(str, [*words, *program])), env=ranks.environment(), stdout=out, stderr=subprocess.STDOUT
            )

    def lines(self, event):
        found = re.findall(r'(?m)\{"event".*\}$', self.text())
        return [line for line in map(json.loads, found) if line["event"] == event]

    def kill(self, rank):
        os.kill([line["pid"] for line in self.lines("process") if line["rank"] == rank][-1], signal.SIGKILL)

    def weights(self):
        code = self.process.wait(timeout=ranks.HANGS)
        assert code == 0, self.text()
        found = {line["digest"] for line in self.lines("weights")}
        assert len(found) == 1, self.text()
        return found.pop()


def losses(job):
    """By step; of one that was computed again the last one counts."""
    return {line["step"]: line["loss"] for line in job.lines("report")}


def test_any_number_of_ranks(folder):
    expected = Job(folder, "1", 1, steps=20)
    expected.go.touch()
    weights = expected.weights()
    for size in (2, 3, 4):
        job = Job(folder, str(size), size, steps=20)
        job.go.touch()
        assert (job.weights(), losses(job)) == (weights, losses(expected)), size


def test_ranks_are_killed_and_come_back(folder):
    expected = Job(folder, "undisturbed", 1)
    expected.go.touch()
    weights = expected.weights()
    job = Job(folder, "disturbed", 3, "--min-np", "1", "--restarts", "3")
    worlds = 1
    for _ in range(2):
        job.until(r'"world", "rank": 0, "ranks": 3', times=worlds)
        if worlds == 1:  # later all steps up to the one that waits may have been computed
            job.until(r'"report".*"ranks": 3', times=random.randrange(1, 40))
        job.kill(random.randrange(3))
        job.until(r'"world", "rank": 0, "ranks": 2', times=worlds)
        worlds += 1
        job.until(r'"world", "rank": 0, "ranks": 3', times=worlds)
    job.go.touch()
    assert job.weights() == weights
    assert losses(job) == losses(expected)
    assert {line["ranks"] for line in job.lines("world")} >= {2, 3}, job.text()


ranks.drive(globals())
