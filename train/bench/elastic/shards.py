#!/usr/bin/env python3
"""Whether trainings with logical shards have the bits of an undisturbed one, whatever is killed, leaves and joins.

Each schedule is drawn from a seed: ranks of a running training get SIGKILL, hosts leave, and ranks and hosts join, at random
moments, until the training has ended. Its last weights, with the optimizer's state and the averages, are compared with those of one
rank that was left alone. Programs: `xoe train --logical-shards`, and logical_shards_training.py, which uses xoe.torch.LogicalShards. Half of
the schedules are on one host; in the others each rank is a host of its own, which this one plays.

    train/bench/elastic/shards.py --schedules 20
    train/bench/elastic/shards.py --schedules 1 --seed 1234 --programs pytorch --keep

It ends with the number of schedules and of what happened in them, and with exit code 1 if one differs, whose seed and output it tells.
"""

import argparse
import collections
import contextlib
import hashlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
TRAINING = ROOT / "frameworks/tests/python/logical_shards_training.py"
HOSTS = ("one", "two", "three", "four")
MARK = "SHARDS_OF_TRAINING"  # in the environment of all processes of a training: its folder
FEW, MOST = 3, len(HOSTS)  # ranks at the start, and ever
# The last two words are a host and a command for it.
SSH = """#!/bin/sh
while [ $# -gt 2 ]; do shift; done
exec env -i PATH=/usr/bin:/bin HOME="$HOME" {variables} sh -c "$2"
"""


class Hangs(Exception):
    """A training did not go on; the text says what was awaited."""


class Train:
    """`xoe train` on images that are cropped and flipped at random."""

    def __init__(self, options):
        self.options, self.steps = options, options.steps or 80

    def prepare(self, folder):
        sizes = ["--images", 61, "--classes", 3, "--size-min", 16, "--size-max", 16]
        run([self.options.bin / "xoe", "data", "make", *sizes, folder / "data"])
        self.data = folder / "data"

    def program(self, folder):
        """What `xoe run` starts; `folder` is of this training."""
        train = [
            self.options.bin / "xoe", "train", "--data", self.data, "--model", self.options.model, "--image-size", 16, "--batch", 2,
            "--logical-shards", self.options.shards, "--device", "cpu", "--data-threads", 0, "--steps", self.steps, "--lr",
            0.05, "--lr-batch", 0, "--lr-warmup", 0, "--ema", 0.9, "--eval-every", 0, "--report-every", 1, "--json", "--checkpoint", folder / "checkpoints",
        ]  # fmt: skip
        told = 'echo "{\\"event\\":\\"process\\",\\"rank\\":$XOE_RANK,\\"pid\\":$$}"; exec "$@"'
        return ["sh", "-c", told, "sh", *train]

    def weights(self, folder, lines):
        del lines
        found = sorted((folder / "checkpoints").glob("step-*.ckpt"))
        if not found or int(found[-1].stem[5:]) != self.steps:
            raise Hangs(f"no checkpoint of step {self.steps}")
        run([self.options.bin / "xoe", "train", "export", found[-1], folder / "weights.safetensors"])
        return hashlib.sha256((folder / "weights.safetensors").read_bytes()).hexdigest()


class PyTorch:
    """logical_shards_training.py."""

    def __init__(self, options):
        self.options, self.steps = options, options.steps or 200

    def prepare(self, folder):
        del folder

    def program(self, folder):
        del folder
        return [self.options.python, TRAINING, "--shards", self.options.shards, "--steps", self.steps]

    def weights(self, folder, lines):
        del folder
        found = {line["digest"] for line in lines if line.get("event") == "weights"}
        if len(found) != 1:
            raise Hangs(f"the ranks tell {len(found)} sorts of weights")
        return found.pop()


PROGRAMS = {"xoe train": Train, "pytorch": PyTorch}


def run(words):
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, words))}: {done.stdout}{done.stderr}")


class Job:
    """A training in `folder`: on one host, or with `hosts` on those that its file names."""

    def __init__(self, program, folder, hosts, ranks):
        options = self.options = program.options
        self.program, self.folder, self.hosts = program, folder, hosts
        folder.mkdir()
        self.output = folder / "output"
        variables = {
            "PYTHONPATH": str(options.bin.parent / "python"), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1",
            "LD_LIBRARY_PATH": os.environ.get("LD_LIBRARY_PATH", ""), MARK: str(folder),
        }  # fmt: skip
        self.named = list(HOSTS[:ranks])
        where = ["-np", ranks]
        if hosts:
            self.name()
            ssh = folder / "ssh"
            ssh.write_text(SSH.format(variables=" ".join(f"{name}='{value}'" for name, value in variables.items() if value)))
            ssh.chmod(0o700)
            where = ["--host-discovery-script", f"cat {folder / 'hosts'}", "--max-np", MOST, "--ssh-command", ssh]
        words = [options.bin / "xoe", "run", *where, "--min-np", 1, "--restarts", 10000, "--timeout", int(options.seconds)]
        kept = {name: value for name, value in os.environ.items() if not name.startswith("XOE_")}
        with self.output.open("w") as out:
            self.process = subprocess.Popen(
                [str(word) for word in [*words, *program.program(folder)]], env={**kept, **variables}, stdin=subprocess.DEVNULL,
                stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        self.until = time.monotonic() + options.seconds

    def name(self):
        """The file of hosts has those that are named now."""
        new = self.folder / "hosts.new"
        new.write_text("".join(f"{host}:1\n" for host in self.named))
        new.rename(self.folder / "hosts")

    def lines(self):
        """What the ranks have told, in order."""
        found = []
        for line in self.output.read_text(errors="replace").splitlines():
            start = line.find('{"event"')
            with contextlib.suppress(ValueError):
                found.append(json.loads(line[start:]) if start >= 0 else {"event": "text", "text": line})
        return found

    def ended(self):
        if time.monotonic() > self.until:
            raise Hangs(f"it has not ended after {self.options.seconds:g} s")
        return self.process.poll() is not None

    def ranks_with_state(self):
        """How many ranks the step that was told last is of; 0: ranks have changed since, and perhaps one of them alone has the
        state."""
        told = 0
        for line in self.lines():
            if line["event"] == "report":
                told = line["ranks"]
            elif line["event"] == "resized" or re.search(r"\bgoes? on\b|was killed|\blost\b|\bleaves?\b|\bjoin", line.get("text", "")):
                told = 0
        return told

    def pids(self):
        """Of ranks that were started and live, by slot."""
        pids = {line["rank"]: line["pid"] for line in self.lines() if line["event"] == "process"}
        return {slot: pid for slot, pid in pids.items() if pathlib.Path(f"/proc/{pid}").exists()}

    def end(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
            try:
                self.process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()


def kill(job, draw):
    victims = job.pids()
    if not victims:
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(victims[draw.choice(sorted(victims))], signal.SIGKILL)
    return True


def leave(job, draw):
    if not job.hosts or len(job.named) < 2:
        return False
    job.named.remove(draw.choice(job.named))
    job.name()
    return True


def join(job, draw):
    free = [host for host in HOSTS if host not in job.named]
    if not job.hosts or not free:
        return False
    job.named.append(draw.choice(free))
    job.name()
    return True


EVENTS = {"kill": kill, "leave": leave, "join": join}


def disturb(job, draw, happened):
    """Until the training has ended."""
    while not job.ended():
        time.sleep(draw.uniform(0, 0.4))
        ranks = job.ranks_with_state()
        if ranks < 2:  # what the last rank has is nowhere else
            if ranks == 1 and job.hosts and draw.random() < 0.5:
                happened["join"] += join(job, draw)
            continue
        # Two at once, where a third one has the state.
        for _ in range(2 if ranks > 2 and draw.random() < 0.3 else 1):
            name = draw.choice(sorted(EVENTS))
            happened[name] += EVENTS[name](job, draw)
        waits = time.monotonic() + draw.uniform(0, 1)
        while not job.ended() and time.monotonic() < waits:
            time.sleep(0.02)


def left_behind(folder):
    """Processes that a training has left, which have its folder in their environment."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            if f"{MARK}={folder}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found


def train(program, folder, hosts, ranks, draw=None):
    """The weights at the end, and what happened."""
    happened = collections.Counter()
    job = Job(program, folder, hosts, ranks)
    try:
        if draw is not None:
            disturb(job, draw, happened)
        while not job.ended():
            time.sleep(0.02)
        lines = job.lines()
        happened["worlds"] += sum("the job goes on with" in line.get("text", "") for line in lines)
        code = job.process.returncode
        # A rank that is killed after the last step, while others have ended, ends the job badly; the weights are there.
        if code != 0 and (draw is None or not happened["kill"]):
            raise Hangs(f"exit code {code}")
        try:
            weights = program.weights(folder, lines)
        except Hangs as lacks:
            raise Hangs(f"exit code {code}, {lacks}") from lacks
        happened["killed at its end"] += code != 0
    finally:
        job.end()
    end = time.monotonic() + 30
    while left := left_behind(folder):
        if time.monotonic() > end:
            raise Hangs(f"processes are left: {left}")
        time.sleep(0.05)
    return weights, happened


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schedules", type=int, default=20, help="for each program (default 20)")
    parser.add_argument("--seed", type=int, default=1, help="of the first one; the others have the following numbers (default 1)")
    parser.add_argument("--programs", default=",".join(PROGRAMS), help=f"(default {','.join(PROGRAMS)})")
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build" / "release" / "bin", help="with xoe (default build/release/bin)")
    parser.add_argument("--python", default=str(ROOT / "build" / "peers" / "data-pytorch" / "bin" / "python"), help="with PyTorch")
    parser.add_argument("--shards", type=int, default=6, help="of a step (default 6)")
    parser.add_argument("--steps", type=int, help="of a training (default: of xoe train 80, of PyTorch 200)")
    parser.add_argument("--model", default="resnet20", help="of xoe train (default resnet20)")
    parser.add_argument("--seconds", type=float, default=300, help="within which a training ends (default 300)")
    parser.add_argument("--keep", action="store_true", help="keep the output of all trainings, not only of those that differ")
    options = parser.parse_args()
    options.programs = options.programs.split(",")
    for name in options.programs:
        if name not in PROGRAMS:
            parser.error(f"no program {name}; there are {', '.join(PROGRAMS)}")
    if options.shards < MOST:
        parser.error(f"--shards must be {MOST} at least, since so many ranks may come")
    return options


def check(program, name, folder, options):
    """The seeds of schedules that differ."""
    program.prepare(folder)
    begun = time.monotonic()
    expected, _ = train(program, folder / "undisturbed", False, 1)
    print(f"{name}: one rank, undisturbed: {expected[:16]}, {time.monotonic() - begun:.1f} s", flush=True)
    differ, total = [], collections.Counter()
    for seed in range(options.seed, options.seed + options.schedules):
        draw = random.Random(seed)
        hosts, of_this = draw.random() < 0.5, folder / f"schedule-{seed}"
        begun = time.monotonic()
        try:
            weights, happened = train(program, of_this, hosts, FEW, draw)
            said = "the same bits" if weights == expected else f"OTHER BITS: {weights[:16]}"
        except Hangs as error:
            weights, happened, said = None, collections.Counter(), f"FAILED: {error}"
        total.update(happened)
        counts = ", ".join(f"{count} {what}" for what, count in sorted(happened.items()) if count)
        print(f"{name}, seed {seed}, {'hosts' if hosts else 'one host'}: {counts}: {said}, {time.monotonic() - begun:.1f} s", flush=True)
        if weights == expected and not options.keep:
            shutil.rmtree(of_this)
        elif weights != expected:
            differ.append(seed)
            print(f"its output is in {of_this / 'output'}", flush=True)
    counts = ", ".join(f"{count} {what}" for what, count in sorted(total.items()))
    print(f"{name}: {options.schedules} schedules, {len(differ)} differ{f': seeds {differ}' if differ else ''}; {counts}", flush=True)
    return differ


def main():
    options = arguments()
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # so that a training under way is ended
    folder = pathlib.Path(tempfile.mkdtemp(prefix="xoe-shards-"))
    differ = []
    for name in options.programs:
        of_program = folder / name.replace(" ", "-")
        of_program.mkdir()
        differ += check(PROGRAMS[name](options), name, of_program, options)
    if not differ and not options.keep:
        shutil.rmtree(folder)
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
