#!/usr/bin/env python3
"""How long `xoe train` takes to go on when a rank is killed, and what a rank that joins costs the others.

Each round is a training of its own under `xoe run --min-np`. A random rank gets SIGKILL at a random moment of a step. Measured is the time
from there to the report of the first step that the others complete without it. That includes the computing of this step, which is told beside
it: the median of the steps just before the kill. With --joins the lost rank is started again, and its join is measured: by how much the step
at whose beginning it becomes a rank is longer than the median of those that follow.

    train/bench/elastic/run.py --rounds 20 --model resnet18 --image-size 32
"""

import itertools
import json
import os
import pathlib
import random
import re
import signal
import statistics
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "measure"))

from compare.machine import machine
from compare.processes import GivenUp, clean_environment
from compare.program import Comparison, parse, parser_of
from compare.report import table

SECONDS = 120  # for one training
BEFORE = 8  # steps before the kill, of which the first is not measured
AFTER = 12  # steps after a join


class Training:
    """A job of ranks that train, and when each line of its output came."""

    def __init__(self, options, *more):
        xoe = options.bin / "xoe"
        data = ["--data", options.data] if options.data else ["--synthetic"]
        train = [
            xoe, "train", *data, "--model", options.model, "--image-size", options.image_size, "--batch", options.batch, "--device", "cpu",
            "--threads", 1, "--classes", options.classes, "--steps", 10**6, "--report-every", 1, "--lr", 1e-4, "--json",
        ]  # fmt: skip
        program = ["sh", "-c", 'echo "pid $$"; exec "$@"', "sh", *train]
        run = [xoe, "run", "-np", options.ranks, "--min-np", 1, *more, *program]
        self.changed = threading.Condition()
        self.lines, self.steps, self.pids, self.pauses = [], [], {}, []
        self.process = subprocess.Popen(
            list(map(str, run)), env=clean_environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            now = time.monotonic()
            with self.changed:
                self.lines.append((now, line.rstrip("\n")))
                self.note(now, line)
                self.changed.notify_all()

    def note(self, now, line):
        if begun := re.match(r"\[(\d+)\] pid (\d+)", line):
            self.pids[int(begun[1])] = int(begun[2])
        elif event := re.match(r'\[\d+\] (\{"event":"resized".*\})', line):
            found = json.loads(event[1])
            self.pauses.append((found["ranks"], found.get("seconds")))  # none where the first rank is one that joined
        elif report := re.match(r'\[\d+\] (\{"event":"report".*\})', line):
            found = json.loads(report[1])
            self.steps.append((now, found["step"], found["ranks"]))

    def until(self, test):
        with self.changed:
            if not self.changed.wait_for(lambda: test() or self.process.poll() is not None, SECONDS) or not test():
                raise GivenUp("no answer:\n" + "\n".join(line for _, line in self.lines[-20:]))

    def steps_of(self, ranks, since=0.0):
        return [when for when, _, of in self.steps if of == ranks and when > since]

    def end(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.reader.join()
        self.process.stdout.close()


def intervals(times):
    return [after - before for before, after in itertools.pairwise(times)]


def kill_one(training, options, number):
    """Kills a rank; the time of it, and of a step before."""
    training.until(lambda: len(training.steps) >= BEFORE)
    step = statistics.median(intervals(training.steps_of(options.ranks)[1:]))
    draw = random.Random(number)
    victim = draw.randrange(options.ranks)
    time.sleep(draw.random() * step)
    killed = time.monotonic()
    os.kill(training.pids[victim], signal.SIGKILL)
    return killed, step


def loss(options, number):
    training = Training(options)
    try:
        killed, step = kill_one(training, options, number)
        training.until(lambda: training.steps_of(options.ranks - 1, killed))
        went_on = training.steps_of(options.ranks - 1, killed)[0] - killed
        return {"went_on_s": went_on, "step_s": step, "pause_s": training.pauses[0][1]}
    finally:
        training.end()


def join(options, number):
    training = Training(options, "--restarts", 1)
    try:
        killed, _ = kill_one(training, options, number)
        training.until(lambda: training.steps_of(options.ranks - 1, killed))
        alone = training.steps_of(options.ranks - 1, killed)[0]
        training.until(lambda: len(training.steps_of(options.ranks, alone)) >= AFTER)
        first = training.steps_of(options.ranks, alone)
        before = training.steps_of(options.ranks - 1, killed)[-1]
        step = statistics.median(intervals(first))
        pause = next(pause for ranks, pause in training.pauses if ranks == options.ranks)
        return {"joining_step_s": first[0] - before, "pause_s": pause, "step_s": step, "cost_steps": (first[0] - before) / step - 1}
    finally:
        training.end()


def arguments():
    parser = parser_of(__doc__, 20, 30)
    parser.add_argument("--ranks", type=int, default=2, help="of each training (default 2)")
    parser.add_argument("--model", default="resnet18")
    parser.add_argument("--image-size", type=int, default=32)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--batch", type=int, default=8, help="per rank (default 8)")
    parser.add_argument("--data", help="folder of a data set; default: synthetic images")
    parser.add_argument("--joins", type=int, default=5, help="trainings in which the lost rank comes back (default 5)")
    return parse(parser, {}, rounds=3, joins=1)


def row(name, values, unit):
    return [name, f"{statistics.median(values):.3f}", f"{max(values):.3f}", f"{min(values):.3f}", unit, len(values)]


def main():
    options = arguments()
    bench = Comparison(options)
    losses = [found for number in bench.rounds() if (found := bench.attempt("loss", loss, options, number))]
    joins = [found for number in range(options.joins) if (found := bench.attempt("join", join, options, number))]
    bench.figures = {"losses": losses, "joins": joins}
    rows = [row(f"from SIGKILL to the next completed step, {options.ranks} ranks", [one["went_on_s"] for one in losses], "s")] if losses else []
    if losses:
        rows.append(row("a step before the kill", [one["step_s"] for one in losses], "s"))
        rows.append(row("the same without one step's computing", [one["went_on_s"] - one["step_s"] for one in losses], "s"))
        rows.append(row("of that between the two worlds", [one["pause_s"] for one in losses], "s"))
    if joins:
        rows.append(row("the step with which a rank joined", [one["joining_step_s"] for one in joins], "s"))
        told = [one for one in joins if one["pause_s"] is not None]
        if told:
            rows.append(row("of that between the two worlds", [one["pause_s"] for one in told], "s"))
            rows.append(row("the same in steps", [one["pause_s"] / one["step_s"] for one in told], "steps"))
        rows.append(row("a step after the join", [one["step_s"] for one in joins], "s"))
        rows.append(row("a join costs the others", [one["cost_steps"] for one in joins], "steps"))
    facts = machine()
    print(f"{facts['cpu']}, {facts['cores']} cores; {options.model}, batch {options.batch}, {options.image_size}x{options.image_size}")
    print(table(["", "median", "most", "least", "unit", "of"], rows))
    measured = [("xoe loss", "s", True, one["went_on_s"]) for one in losses]
    measured += [("xoe joining step", "s", True, one["joining_step_s"]) for one in joins]
    bench.save("elastic", "Ranks that are lost and ranks that join", measured)
    return 1 if bench.given_up else 0


if __name__ == "__main__":
    sys.exit(main())
