"""`xoe run --resize`: ranks that leave a training and join it, as another program asks; no step is lost or done twice."""

import contextlib
import ctypes
import fcntl
import json
import os
import re
import signal
import socket
import subprocess
import termios
import time

import ranks

TRAINING = ranks.ROOT / "frameworks/tests/python/resize_training.py"


class Job:
    """A training on GPUs a and b, or others, of at most three, and the socket that changes it."""

    def __init__(self, folder, *options, program=None, devices="a,b"):
        self.stop = folder / "stop"
        self.hold = folder / "hold"
        self.output = folder / "output"
        self.ours, theirs = socket.socketpair()
        self.ours.settimeout(ranks.HANGS)
        program = program or [ranks.interpreter(), str(TRAINING), str(self.stop)]
        command = [str(ranks.BUILD / "bin" / "xoe"), "run", "--devices", devices, "--resize", f"{theirs.fileno()}:3"]
        with self.output.open("w") as out, theirs:
            self.process = subprocess.Popen(
                [*command, "--timeout", str(ranks.HANGS), *options, *program],
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

    def until_it_has_read(self):
        """Waits until the launcher has taken all that it was asked."""
        unread = ctypes.c_int(1)
        end = time.monotonic() + ranks.HANGS
        while unread.value:
            assert time.monotonic() < end, self.text()
            fcntl.ioctl(self.ours, termios.TIOCOUTQ, unread)
            time.sleep(0.02)

    def text(self):
        return self.output.read_text()

    def until(self, pattern):
        end = time.monotonic() + ranks.HANGS
        while not re.search(pattern, self.text()):
            assert time.monotonic() < end and self.process.poll() is None, f"no {pattern}: {self.text()}"
            time.sleep(0.02)

    def begins(self, rank, size):
        """Waits for such a rank's beginning; gives its pid and step."""
        pattern = rf"pid (\d+) rank {rank} of {size} from step (\d+)"
        self.until(pattern)
        return tuple(map(int, re.findall(pattern, self.text())[-1]))

    def admits(self, device, slot):
        """A rank that waits for the others, which hold. Gives its pid."""
        self.begins(1, 2)
        self.hold.touch()
        self.ask(f"join {device}")
        self.until(rf"\[{slot}\] pid \d+ started")
        time.sleep(1)
        return int(re.findall(rf"\[{slot}\] pid (\d+) started", self.text())[-1])

    def end(self):
        self.stop.touch()
        code = self.process.wait(timeout=ranks.HANGS)
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
    assert text.count("leaves: the next world is without it") == 2, text
    assert "3 ranks" in text
    changes = [b for a, b in zip([None, *sizes], sizes, strict=False) if a != b]
    assert changes[:2] == [2, 1] and changes[-2:] == [3, 2], changes


def test_a_request_without_an_end_is_told_of(folder):
    job = Job(folder, program=["sh", "-c", f"until [ -e {folder}/stop ]; do sleep 0.1; done"])
    for _ in range(20):  # more than that, in lines: each is answered
        job.ask("\n".join(["nonsense"] * 500))
        assert all(job.answer().startswith("refused") for _ in range(500))
    job.ours.sendall(b"x" * 70000)
    job.until(r"xoe run: --resize: \d+ bytes came without the end of a line; the connection is closed")
    job.stop.touch()
    assert job.process.wait(timeout=ranks.HANGS) == 0, job.text()


def test_answers_wait_for_their_reader(folder):
    job = Job(folder, program=["sh", "-c", f"until [ -e {folder}/stop ]; do sleep 0.1; done"])
    job.ask("\n".join(f"leave gpu{i} 1" for i in range(1500)))
    job.until_it_has_read()
    assert [job.answer() for _ in range(1500)] == [f"refused gpu{i} no rank has this GPU" for i in range(1500)]
    # Until there are too many.
    with contextlib.suppress(ConnectionError):
        job.ask("nonsense\n" * 20000)
    job.until(r"xoe run: --resize: \d+ bytes of answers wait for their reader; the connection is closed")
    job.stop.touch()
    assert job.process.wait(timeout=ranks.HANGS) == 0, job.text()


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
    assert job.process.wait(timeout=ranks.HANGS) == 0, job.text()
    assert "did not leave in time" in job.text()


def test_a_rank_that_fails_is_restarted_whatever_the_size(folder):
    job = Job(folder, "--restarts", "1")
    job.begins(1, 2)
    job.ask("join c")
    assert job.answer() == "joined c"
    pid, _ = job.begins(2, 3)
    os.kill(pid, signal.SIGKILL)
    job.until(r"restarted, 0 of 1 restarts left")
    end = time.monotonic() + ranks.HANGS
    while len(re.findall(r"rank 2 of 3 from", job.text())) < 2:
        assert time.monotonic() < end, job.text()
        time.sleep(0.02)
    job.ask("leave c 60")
    assert job.answer() == "left c"
    job.stop.touch()
    assert job.process.wait(timeout=ranks.HANGS) == 0, job.text()


def test_the_others_end_while_one_waits_to_join(folder):
    job = Job(folder)
    job.admits("c", 2)
    job.stop.touch()
    job.hold.unlink()
    code, text, _ = job.end()
    assert code == 0, text
    assert text.count("ended") == 2, text


def test_one_that_dies_while_it_waits_to_join_is_left_out(folder):
    job = Job(folder)
    os.kill(job.admits("c", 2), signal.SIGKILL)
    assert job.answer() == "failed c was killed by SIGKILL (killed)", job.text()
    job.hold.unlink()
    count = job.text().count("[0] step")
    job.until(rf"(\[0\] step (.*\n)+.*){{{count + 5}}}")
    # Its place is free again.
    job.ask("join d")
    assert job.answer() == "joined d"
    code, text, sizes = job.end()
    assert code == 0, text
    assert sizes[0] == 2 and sizes[-1] == 3, sizes
    assert "the rank that was to join with c was killed by SIGKILL (killed)" in text


def test_one_that_waits_to_join_leaves_at_once(folder):
    job = Job(folder)
    job.admits("c", 2)
    job.ask("leave c 60")
    assert job.answer() == "left c"
    job.hold.unlink()
    code, text, sizes = job.end()
    assert code == 0, text
    assert set(sizes) == {2}, sizes


def test_one_that_fails_when_it_shall_leave_has_left(folder):
    job = Job(folder)
    job.begins(1, 2)
    job.hold.touch()
    job.ask("leave b 60")
    job.ask("leave a 60")
    assert job.answer() == "refused a it is the only rank"
    os.kill(int(re.search(r"\[1\] pid (\d+)", job.text())[1]), signal.SIGKILL)
    assert job.answer() == "left b"
    job.hold.unlink()
    job.begins(0, 1)
    job.stop.touch()
    assert job.process.wait(timeout=ranks.HANGS) == 0, job.text()
    assert "the rank that was to leave with b was killed by SIGKILL (killed)" in job.text()


def steps_of(run):
    lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [line["step"] for line in lines if line["event"] == "report"]


def test_the_first_rank_of_a_training_leaves_and_another_takes_its_place(folder):
    if not (ranks.BUILD / "bin" / "xoe-trainer").exists():
        return
    run, checkpoints = folder / "run", folder / "checkpoints"
    train = [str(ranks.BUILD / "bin" / "xoe"), "train", "--synthetic", "--model", "mlp", "--image-size", "8", "--device", "cpu"]
    files = ["--run-dir", str(run), "--checkpoint", str(checkpoints), "--checkpoint-every", "1"]
    job = Job(folder, program=[*train, "--batch", "4", "--steps", "1000000", "--report-every", "1", *files])
    job.until(r"(?m)^\[0\] +20 ")
    job.ask("leave a 60")
    assert job.answer() == "left a", job.text()
    job.until(r"\[1\] step \d+ is the first with 1 rank")
    # What was due when it left, its successor does.
    step = int(re.search(r"step (\d+) is the first with 1 rank", job.text())[1]) - 1
    job.until(rf"\[1\] checkpoint .*/step-{step:08}.ckpt")
    # It gets the first place, and with it the folder that the others have written to.
    job.ask("join c")
    assert job.answer() == "joined c", job.text()
    job.until(r"\[0\] step \d+ is the first with 2 ranks")
    count = len(steps_of(run))
    end = time.monotonic() + ranks.HANGS
    while len(steps_of(run)) < count + 5:
        assert time.monotonic() < end, job.text()
        time.sleep(0.02)
    job.process.terminate()
    job.process.wait(timeout=ranks.HANGS)
    steps = steps_of(run)
    assert steps == list(range(1, len(steps) + 1)), job.text()
    assert (checkpoints / f"step-{steps[-1]:08}.ckpt").exists(), job.text()


def test_a_training_that_grows_before_its_last_step_does_that_step(folder):
    xoe = ranks.BUILD / "bin" / "xoe"
    if not (ranks.BUILD / "bin" / "xoe-trainer").exists():
        return
    sizes = ["--images", "60", "--classes", "3", "--size-min", "64", "--size-max", "64"]
    subprocess.run([xoe, "data", "make", *sizes, folder / "data"], check=True, capture_output=True)
    run, checkpoints = folder / "run", folder / "checkpoints"
    train = f"{xoe} train --data {folder / 'data'} --model resnet18 --image-size 64 --device cpu --batch 4 --report-every 1"
    # 14 steps with 1 rank. After 13 of them, less than half a step with 2 ranks is left.
    script = f"echo pid $$ started; exec {train} --epochs 0.9 --run-dir {run} --checkpoint {checkpoints}"
    job = Job(folder, program=["sh", "-c", script], devices="a")
    job.until(r"(?m)^\[0\] +12 ")
    first = int(re.search(r"\[0\] pid (\d+) started", job.text())[1])
    os.kill(first, signal.SIGSTOP)
    job.ask("join b")
    job.until(r"\[1\] pid \d+ started")
    time.sleep(3)
    os.kill(first, signal.SIGCONT)
    assert job.process.wait(timeout=ranks.HANGS) == 0, job.text()
    assert steps_of(run) == list(range(1, 15)), job.text()
    assert [file.name for file in checkpoints.glob("*.ckpt")] == ["step-00000014.ckpt"], job.text()


def test_a_training_that_cannot_go_on_with_a_newcomer_keeps_its_state(folder):
    xoe = ranks.BUILD / "bin" / "xoe"
    if not (ranks.BUILD / "bin" / "xoe-trainer").exists():
        return
    (folder / "empty").mkdir()
    checkpoints = folder / "checkpoints"
    train = f"{xoe} train --model mlp --image-size 8 --classes 10 --device cpu --batch 4 --report-every 1 --checkpoint {checkpoints}"
    # The newcomer finds no images.
    script = (
        f"[ $CUDA_VISIBLE_DEVICES = c ] && data='--data {folder}/empty'; exec {train} --steps 1000000 ${{data:---synthetic}}"
    )
    job = Job(folder, program=["sh", "-c", script])
    job.until(r"(?m)^\[0\] +20 ")
    job.ask("join c")
    assert job.process.wait(timeout=ranks.HANGS) != 0, job.text()
    kept = re.search(r"the state is in (.*/step-0*(\d+)\.ckpt)", job.text())
    assert kept and (checkpoints / os.path.basename(kept[1])).exists(), job.text()
    assert f"\n[0] {kept[2]} " in job.text(), job.text()


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
    job.process.wait(timeout=ranks.HANGS)


def test_a_program_that_fails_at_its_start_joins_nothing(folder):
    script = folder / "program.sh"
    script.write_text('#!/bin/sh\n[ "$CUDA_VISIBLE_DEVICES" = b ] && exit 9\nsleep 100\n')
    script.chmod(0o755)
    job = Job(folder, program=[str(script)], devices="a")
    job.ask("join b")
    assert job.answer() == "failed b exited with code 9"
    assert job.process.poll() is None
    job.process.terminate()
    job.process.wait(timeout=ranks.HANGS)


ranks.drive(globals())
