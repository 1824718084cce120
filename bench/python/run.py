#!/usr/bin/env python3
"""Measures what training with PyTorch on two ranks costs: Xoe's DistributedOptimizer and DDP on Xoe, against DDP on Gloo.

The limit is the speed of as many processes that train independently at the same time: they share only the machine. Each process alternates
such a step with one together with the others. Rounds are interleaved in random order; figures are medians over
rounds. Exposed communication is the time by which a step is longer than the independent step before it; CPU time is counted likewise.

    bench/python/run.py --rounds 5
"""

import argparse
import json
import os
import pathlib
import random
import socket
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
HERE = pathlib.Path(__file__).resolve().parent
MODES = {
    "optimizer": "Xoe DistributedOptimizer",
    "xoe": 'DDP with "xoe"',
    "hook": 'DDP with "xoe" and its hook',
    "gloo": "DDP with Gloo",
}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Bench:
    def __init__(self, options):
        self.options = options
        self.python = options.python
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("XOE_")},
            "PYTHONPATH": str(options.build / "python"),
            "OMP_NUM_THREADS": "1",
        }

    def finish(self, processes):
        """The last JSON line of each process that printed one."""
        found = []
        for process in processes:
            out, err = process.communicate(timeout=self.options.limit)
            if process.returncode != 0:
                sys.exit(f"error: {' '.join(map(str, process.args))} ended with {process.returncode}:\n{err[-3000:]}")
            found += [json.loads(line) for line in out.splitlines() if line.startswith("{")]
        return found

    def start(self, command, **variables):
        return subprocess.Popen(
            [str(word) for word in command],
            env={**self.environment, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def on_ranks(self, ranks, script, *arguments):
        launcher = [self.options.build / "bin" / "xoe", "run", "-np", ranks, "--no-tag-output"]
        return self.finish([self.start([*launcher, self.python, HERE / script, *arguments])])[0]

    def train(self, model, mode):
        arguments = [
            "--model",
            model,
            "--steps",
            self.options.steps,
            "--warmup",
            self.options.warmup,
            "--batch",
            self.options.batch,
        ]
        if mode == "optimizer":
            return self.on_ranks(self.options.ranks, "worker.py", mode, *arguments)
        command = [self.python, HERE / "worker.py", mode, *arguments]
        port, size = str(free_port()), str(self.options.ranks)
        ranks = [
            self.start(command, RANK=str(rank), LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=size, WORLD_SIZE=size, MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
            for rank in range(self.options.ranks)
        ]  # fmt: skip
        return self.finish(ranks)[0]


def summary(model, rounds):
    """A line for each mode: the step, its share of the limit's speed, exposed communication, and Gloo's in proportion."""
    figures = {}
    print(f"\n{model}, medians of {len(rounds)} rounds")
    print(f"{'':<30}{'steps/s':>9}{'of the limit':>14}{'exposed ms':>12}{'Gloo / this':>13}{'CPU ms':>9}{'Gloo / this':>13}")
    for mode in rounds[0]:
        found = {key: statistics.median(r[mode][key] for r in rounds) for key in rounds[0][mode]}
        found["of_the_limit"] = statistics.median(r[mode]["alone_ms"] / r[mode]["step_ms"] for r in rounds)
        figures[mode] = found
    for mode, found in figures.items():
        for key in ("exposed_ms", "cpu_ms"):
            found[f"gloo_{key}_ratio"] = (
                figures["gloo"][key] / found[key] if "gloo" in figures and found[key] > 0 else float("nan")
            )
        print(
            f"{MODES[mode]:<30}{1e3 / found['step_ms']:>9.2f}{found['of_the_limit']:>14.1%}{found['exposed_ms']:>12.1f}"
            f"{found['gloo_exposed_ms_ratio']:>13.1f}{found['cpu_ms']:>9.1f}{found['gloo_cpu_ms_ratio']:>13.1f}"
        )
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--python", default=str(ROOT / "build" / "peers" / "data-pytorch" / "bin" / "python"))
    parser.add_argument("--models", default="resnet50,gpt")
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--limit", type=float, default=600, help="seconds for one measurement")
    parser.add_argument("--quick", action="store_true", help="one short round")
    parser.add_argument("--json", type=pathlib.Path, help="write the figures there")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.steps, options.warmup = 1, 5, 2

    bench = Bench(options)
    modes = options.modes.split(",")
    figures = {}
    for model in options.models.split(","):
        rounds = []
        for number in range(options.rounds):
            order = random.sample(modes, len(modes))
            found = {mode: bench.train(model, mode) for mode in order}
            rounds.append({mode: found[mode] for mode in modes})
            exposed = ", ".join(f"{mode} {found[mode]['exposed_ms']:.1f} ms" for mode in modes)
            print(f"{model} round {number + 1}, exposed: {exposed}", flush=True)
        figures[model] = summary(model, rounds)
    figures["overhead"] = {}
    print("\na tensor of 256 bytes, submitted and waited for among 160, in us")
    # A single rank waits for no other: there the difference is Python's alone.
    for ranks in (1, options.ranks):
        found = [bench.on_ranks(ranks, "overhead.py") for _ in range(options.rounds)]
        median = {key: statistics.median(one[key] for one in found) for key in found[0]}
        figures["overhead"][ranks] = median
        print(
            f"{ranks} rank{'s' if ranks > 1 else ''}: {median['functions_us']:.2f} through xoe.torch, {median['module_us']:.2f} through"
            f" the module alone, {median['overhead_us']:.2f} more"
        )
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")


main()
