"""A job of elastic_images.py, whose ranks are killed and join again, and what its ledger proves."""

import json
import os
import random
import re
import signal
import subprocess

import ranks
import running_job

TRAINING = ranks.ROOT / "frameworks/tests/python/elastic_images.py"
RECORDS = 98  # with batches of two, ranks have short and empty ones at the ends of epochs


def make_images(folder, form):
    """Images, each of a class of its own: their labels are their numbers."""
    make = [ranks.BUILD / "bin" / "xoe", "data", "make", "--format", form, "--images", RECORDS, "--classes", RECORDS]
    sizes = ["--validation", 0, "--size-min", 16, "--size-max", 16]
    subprocess.run(list(map(str, [*make, *sizes, folder])), check=True, stdout=subprocess.DEVNULL)
    return folder


class Job(running_job.RunningJob):
    def __init__(self, folder, framework, *options, **variables):
        self.folder, self.output, self.stop = folder, folder / "output", folder / "stop"
        images = make_images(folder / "images", "tfrecord" if framework == "records" else "folder")
        program = [ranks.interpreter(), TRAINING, framework, images, folder / "ledger", self.stop]
        words = [ranks.BUILD / "bin" / "xoe", "run", "-np", 3, *options, "--timeout", ranks.HANGS, *program]
        with self.output.open("w") as out:
            self.process = subprocess.Popen(
                list(map(str, words)), env=ranks.environment(**variables), stdout=out, stderr=subprocess.STDOUT
            )

    def kill(self, slot):
        os.kill(int(re.findall(rf"\[{slot}\] pid (\d+) started", self.text())[-1]), signal.SIGKILL)

    def steps(self, ranks_then):
        return len(re.findall(rf"step \d+ by {ranks_then}\n", self.text()))

    def end(self):
        """Lets it end with an epoch; gives what `xoe data ledger` says."""
        self.stop.touch()
        code = self.process.wait(timeout=ranks.HANGS)
        assert code == 0, self.text()
        words = [ranks.BUILD / "bin" / "xoe", "data", "ledger", "--json", self.folder / "ledger"]
        done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)
        assert done.returncode == 0, (done.stdout, done.stderr, self.text())
        return json.loads(done.stdout)


def kill_and_join(folder, framework, **variables):
    """One rank is killed, the others go on, and it joins again: every record once in each epoch, in the ledger and the model."""
    job = Job(folder, framework, "--min-np", "1", "--restarts", "1", **variables)
    job.until(r"step \d+ by 3\n", times=random.randrange(10, 120))
    victim = random.randrange(3)
    job.kill(victim)
    job.until(r"step \d+ by 2\n", times=random.randrange(1, 60))
    before = job.steps(3)
    job.until(r"step \d+ by 3\n", times=before + random.randrange(10, 120))
    proof = job.end()
    assert job.text().count("each record once an epoch") == 3, job.text()
    assert proof["epochs"] and all(epoch["exact"] and epoch["records"] == RECORDS for epoch in proof["epochs"]), proof
    assert proof["worlds"] >= 3, proof
    # Each rank commits each step, or each third: so many are computed again at most.
    assert len(proof["in_flight"]) <= 3 * proof["worlds"], proof
    return proof
