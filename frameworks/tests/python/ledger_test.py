"""The ledger of a training in Python: `xoe data ledger` proves that each epoch was each record exactly once, whatever is killed."""

import json
import os
import random
import re
import signal
import subprocess

import ranks
import running_job

TRAINING = ranks.ROOT / "frameworks/tests/python/ledger_training.py"
EPOCHS = 20


def check(folder, *options):
    words = [ranks.BUILD / "bin" / "xoe", "data", "ledger", "--json", *options, folder]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return json.loads(done.stdout), done.returncode


class Job(running_job.RunningJob):
    def __init__(self, folder, *options):
        self.output = folder / "output"
        program = [ranks.interpreter(), TRAINING, folder / "ledger", EPOCHS]
        words = [ranks.BUILD / "bin" / "xoe", "run", "-np", 3, *options, "--timeout", ranks.HANGS, *program]
        with self.output.open("w") as out:
            self.process = subprocess.Popen(
                list(map(str, words)), env=ranks.environment(), stdout=out, stderr=subprocess.STDOUT
            )

    def kill(self, slot):
        os.kill(int(re.findall(rf"\[{slot}\] pid (\d+) started", self.text())[-1]), signal.SIGKILL)

    def end(self):
        code = self.process.wait(timeout=ranks.HANGS)
        assert code == 0, self.text()


def test_survivors_leave_out_no_record_and_take_none_twice(folder):
    # With 3, 2 and 1 ranks no index is repeated at the end of an epoch.
    draw = random.Random()
    job = Job(folder, "--min-np", "1")
    victims = draw.sample(range(3), 2)
    for left, slot in zip((3, 2), victims, strict=True):
        job.until(rf"step \d+ by {left}\n", times=draw.randrange(20, 200))
        job.kill(slot)
    job.end()
    assert job.text().count("each record once an epoch") == 1, job.text()
    proof, code = check(folder / "ledger")
    assert code == 0, (proof, job.text())
    assert [epoch["epoch"] for epoch in proof["epochs"]] == list(range(EPOCHS)), proof
    assert all(epoch["exact"] and epoch["records"] == 240 for epoch in proof["epochs"]), proof
    assert proof["worlds"] >= 3, proof


def test_ranks_that_are_restarted_go_on_in_the_ledger(folder):
    job = Job(folder, "--restarts", "1")
    job.until(r"\[1\] step \d+ by 3\n", times=random.randrange(10, 100))
    job.kill(1)
    job.end()
    assert job.text().count("each record once an epoch") == 3, job.text()
    proof, code = check(folder / "ledger")
    assert code == 0 and len(proof["epochs"]) == EPOCHS, (proof, job.text())
    assert proof["worlds"] == 2 and len(list((folder / "ledger").iterdir())) == 4, proof


def test_another_training_needs_a_folder_of_its_own(folder):
    Job(folder).end()
    again = Job(folder)
    assert again.process.wait(timeout=ranks.HANGS) != 0, again.text()
    assert "has the ledger of another training" in again.text() and "resume=True" in again.text(), again.text()
    assert check(folder / "ledger")[1] == 0


def test_a_file_that_is_lost_is_told(folder):
    job = Job(folder)
    job.end()
    assert check(folder / "ledger")[1] == 0
    next((folder / "ledger").iterdir()).unlink()
    proof, code = check(folder / "ledger")
    assert code == 4 and proof["silent"], proof


ranks.drive(globals())
