"""`xoe run --resize`: ranks that leave a training and join it, as another program asks; no step is lost or done twice."""

import os
import re
import signal
import socket
import subprocess
import time

import ranks

TRAINING = ranks.ROOT / "tests" / "python" / "resize_training.py"


class Job:
    """A training on GPUs a and b, or others, of at most three, and the socket that changes it."""

    def __init__(self, folder, *options, program=None, devices="a,b"):
        self.stop = folder / "stop"
        self.output = folder / "output"
        self.ours, theirs = socket.socketpair()
        self.ours.settimeout(60)
        program = program or [ranks.interpreter(), str(TRAINING), str(self.stop)]
        command = [str(ranks.BUILD / "bin" / "xoe"), "run", "--devices", devices, "--resize", f"{theirs.fileno()}:3"]
        with self.output.open("w") as out, theirs:
            self.process = subprocess.Popen(
                [*command, "--timeout", "200", *options, *program],
                env=ranks.environment(),
                stdout=out,
                stderr=subprocess.STDOUT,
                pass_fds=[theirs.fileno()],
            )
        self.answers = self.ours.makefile()

    def ask(self, line):
        self.ours.sendall(line.encode() + b"\n")

    def answer(self):
        return self.answers.readline().strip()

    def text(self):
        return self.output.read_text()

    def until(self, pattern):
        end = time.monotonic() + 60
        while not re.search(pattern, self.text()):
            assert time.monotonic() < end and self.process.poll() is None, f"no {pattern}: {self.text()}"
            time.sleep(0.02)

    def begins(self, rank, size):
        """Waits for such a rank's beginning; gives its pid and step."""
        pattern = rf"pid (\d+) rank {rank} of {size} from step (\d+)"
        self.until(pattern)
        return tuple(map(int, re.findall(pattern, self.text())[-1]))

    def end(self):
        self.stop.touch()
        code = self.process.wait(timeout=100)
        text = self.text()
        # Of rank 0: it has seen every step.
        steps = [(int(step), int(by)) for step, by in re.findall(r"\[0\] step (\d+) by (\d+)", text)]
        assert [step for step, _ in steps] == list(range(1, len(steps) + 1)), text
        return code, text, [by for _, by in steps]


def test_ranks_leave_and_join(folder):
    job = Job(folder)
    first, _ = job.begins(0, 2)
    job.until(r"\[0\] step 5 ")
    job.ask("leave b 60")
    assert job.answer() == "left b"
    pid, step = job.begins(0, 1)
    assert pid == first and step >= 5
    job.ask("join c")
    job.ask("join d")
    assert {job.answer(), job.answer()} == {"joined c", "joined d"}
    job.begins(2, 3)
    # The one in the middle: those behind it get other numbers.
    job.ask("leave c 60")
    assert job.answer() == "left c"
    job.until(r"(?s)of 3.*rank 0 of 2 ")
    count = job.text().count("by 2")
    job.until(rf"(by 2.*\n.*){{{count + 4}}}")
    code, text, sizes = job.end()
    assert code == 0, text
    assert text.count("ended") == 2, text
    assert text.count("leaves: its GPU is given back") == 2, text
    assert "3 ranks" in text
    changes = [b for a, b in zip([None, *sizes], sizes, strict=False) if a != b]
    assert changes[:2] == [2, 1] and changes[-2:] == [3, 2], changes


def test_a_rank_that_does_not_leave_is_ended_and_the_others_go_on(folder):
    job = Job(folder)
    job.begins(1, 2)
    job.until(r"\[1\] step 3 ")
    found = re.search(r"\[1\] pid (\d+)", job.text())
    os.kill(int(found[1]), signal.SIGSTOP)
    job.ask("leave b 0.5")
    # SIGTERM does nothing to a stopped process.
    assert job.answer() == "left b"
    job.begins(0, 1)
    job.stop.touch()
    assert job.process.wait(timeout=60) == 0, job.text()
    assert "did not leave in time" in job.text()


def test_a_rank_that_fails_is_restarted_whatever_the_size(folder):
    job = Job(folder, "--restarts", "1")
    job.begins(1, 2)
    job.ask("join c")
    assert job.answer() == "joined c"
    pid, _ = job.begins(2, 3)
    os.kill(pid, signal.SIGKILL)
    job.until(r"restarted, 0 of 1 restarts left")
    end = time.monotonic() + 60
    while len(re.findall(r"rank 2 of 3 from", job.text())) < 2:
        assert time.monotonic() < end, job.text()
        time.sleep(0.02)
    job.ask("leave c 60")
    assert job.answer() == "left c"
    job.stop.touch()
    assert job.process.wait(timeout=60) == 0, job.text()


def test_what_cannot_be_done_is_refused(folder):
    job = Job(folder, program=["sleep", "100"], devices="a")
    for request, expected in [
        ("leave a 5", "refused a it is the only rank"),
        ("leave x 5", "refused x no rank has this GPU"),
        ("leave a soon", "refused a not a number of seconds"),
        ("join a", "refused a a rank has this GPU"),
        ("join " + "x" * 200, "refused " + "x" * 200 + " not the name of a GPU"),
        ("nonsense", "refused - neither `join GPU` nor `leave GPU SECONDS`"),
    ]:
        job.ask(request)
        assert job.answer() == expected, request
    job.process.terminate()
    job.process.wait(timeout=30)


def test_a_program_that_fails_at_its_start_joins_nothing(folder):
    script = folder / "program.sh"
    script.write_text('#!/bin/sh\n[ "$CUDA_VISIBLE_DEVICES" = b ] && exit 9\nsleep 100\n')
    script.chmod(0o755)
    job = Job(folder, program=[str(script)], devices="a")
    job.ask("join b")
    assert job.answer() == "failed b exited with code 9"
    assert job.process.poll() is None
    job.process.terminate()
    job.process.wait(timeout=30)


ranks.drive(globals())
