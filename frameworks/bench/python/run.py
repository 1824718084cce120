#!/usr/bin/env python3
"""Measures what training with PyTorch on two ranks costs: with Xoe, and with DDP on Gloo.

The limit is the speed of as many copies of plain PyTorch that train at the same time and share only the machine. Xoe tells glibc to keep what
a step frees, which saves page faults; rows with "kept" have those settings without Xoe. Each contestant has processes of its own. Rounds
are interleaved, each in another order; figures are medians over rounds, shares and differences within a round. Exposed communication is
the time by which a step is longer than one of the plain copies with the same settings. Copies that meet wait for each other once a step, at
a barrier, and send nothing: what they lose, ranks lose because none is ahead of the slower one.

    frameworks/bench/python/run.py --rounds 5 --models resnet50 --batch 4
"""

import argparse
import json
import pathlib
import random
import statistics
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "measure"))

from compare import processes

HERE = pathlib.Path(__file__).resolve().parent
ALONE, KEPT = "alone", "alone kept"
CONTESTANTS = {
    ALONE: "plain copies",
    KEPT: "plain copies, kept",
    "meet": "the same, meeting each step",
    "optimizer": "Xoe DistributedOptimizer",
    "sharded": "the same, sharded",
    "xoe": 'DDP with "xoe"',
    "hook": 'DDP with "xoe" and its hook',
    "gloo": "DDP with Gloo",
    "gloo kept": "DDP with Gloo, kept",
}
BATCHES = {"resnet50": (4, 16), "gpt": (16,)}


class Bench:
    def __init__(self, options):
        self.options = options
        self.python = options.python
        self.environment = processes.clean_environment(PYTHONPATH=str(options.build / "python"), OMP_NUM_THREADS="1")

    def finish(self, started):
        """The JSON lines of the processes."""
        outputs = processes.outputs_of(started, self.options.limit, shown=(0, 3000))
        return [line for out in outputs for line in processes.json_lines(out)]

    def start(self, command, **variables):
        return processes.start(command, {**self.environment, **variables})

    def on_ranks(self, script, *arguments, ranks=None):
        launcher = [self.options.build / "bin" / "xoe", "run", "-np", ranks or self.options.ranks, "--no-tag-output"]
        return self.finish([self.start([*launcher, self.python, HERE / script, *arguments])])

    def train(self, model, batch, contestant):
        """The mean of the ranks' figures."""
        mode, *kept = contestant.split()
        sizes = {"--model": model, "--batch": batch, "--steps": self.options.steps, "--warmup": self.options.warmup}
        arguments = [mode, *(["--keep"] if kept else []), *(word for pair in sizes.items() for word in pair)]
        if mode in ("meet", "optimizer", "sharded"):
            found = self.on_ranks("worker.py", *arguments)
        else:
            port, size = str(processes.free_ports(1)[0]), str(self.options.ranks)
            variables = {"LOCAL_WORLD_SIZE": size, "WORLD_SIZE": size, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
            command = [self.python, HERE / "worker.py", *arguments]
            found = self.finish(
                [self.start(command, RANK=str(rank), LOCAL_RANK=str(rank), **variables) for rank in range(self.options.ranks)]
            )
        return {key: statistics.mean(rank[key] for rank in found) for key in ("step_ms", "cpu_ms")}


def settings_of(contestant):
    """The plain copies whose memory is managed alike."""
    return ALONE if contestant in (ALONE, "gloo") else KEPT


def share(rounds, contestant, of, key):
    """How fast the contestant was beside `of`, in each round."""
    return statistics.median(one[of][key] / one[contestant][key] for one in rounds)


def exposed(rounds, contestant):
    return statistics.median(one[contestant]["step_ms"] - one[settings_of(contestant)]["step_ms"] for one in rounds)


def summary(title, rounds):
    """Prints a line for each contestant, and returns its figures."""
    print(f"\n{title}, medians of {len(rounds)} rounds")
    print(f"{'':<28}{'step ms':>9}{'of plain':>10}{'of kept':>9}{'exposed ms':>12}{'CPU-ms':>9}{'of plain':>10}{'of kept':>9}")
    figures = {}
    for contestant in rounds[0]:
        found = {key: statistics.median(one[contestant][key] for one in rounds) for key in ("step_ms", "cpu_ms")}
        for of, name in ((ALONE, "plain"), (KEPT, "kept")):
            if of in rounds[0]:
                found |= {f"{key}_of_{name}": share(rounds, contestant, of, f"{key}_ms") for key in ("step", "cpu")}
        if settings_of(contestant) in rounds[0]:
            found["exposed_ms"] = exposed(rounds, contestant)
        figures[contestant] = found
        shares = {name: f"{found[name]:.1%}" if name in found else "-" for name in
                  ("step_of_plain", "step_of_kept", "cpu_of_plain", "cpu_of_kept")}  # fmt: skip
        print(
            f"{CONTESTANTS[contestant]:<28}{found['step_ms']:>9.1f}{shares['step_of_plain']:>10}{shares['step_of_kept']:>9}"
            f"{found.get('exposed_ms', float('nan')):>12.1f}{found['cpu_ms']:>9.1f}{shares['cpu_of_plain']:>10}{shares['cpu_of_kept']:>9}"
        )
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--python", default=str(ROOT / "build" / "peers" / "data-pytorch" / "bin" / "python"))
    parser.add_argument("--models", default=",".join(BATCHES))
    parser.add_argument("--contestants", default=",".join(CONTESTANTS))
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--warmup", type=int, default=4)
    parser.add_argument("--batch", type=int, help="default: 4 and 16 for resnet50, 16 for gpt")
    parser.add_argument("--limit", type=float, default=600, help="seconds for one measurement")
    parser.add_argument("--quick", action="store_true", help="one short round")
    parser.add_argument("--json", type=pathlib.Path, help="write the figures there")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.steps, options.warmup = 1, 5, 3

    bench = Bench(options)
    contestants = options.contestants.split(",")
    figures = {}
    for model in options.models.split(","):
        for batch in [options.batch] if options.batch else BATCHES[model]:
            rounds = []
            for number in range(options.rounds):
                order = random.Random(number).sample(contestants, len(contestants))
                found = {contestant: bench.train(model, batch, contestant) for contestant in order}
                rounds.append({contestant: found[contestant] for contestant in contestants})
                steps = ", ".join(f"{contestant} {rounds[-1][contestant]['step_ms']:.0f} ms" for contestant in contestants)
                print(f"{model}, batch {batch}, round {number + 1}: {steps}", flush=True)
            figures[f"{model}-{batch}"] = summary(f"{model}, batch {batch}", rounds)
    figures["overhead"] = {}
    print("\na tensor of 256 bytes, submitted and waited for among 160, in us")
    # A single rank waits for no other: there the difference is Python's alone.
    for ranks in (1, options.ranks):
        found = [bench.on_ranks("overhead.py", ranks=ranks)[0] for _ in range(options.rounds)]
        median = {key: statistics.median(one[key] for one in found) for key in found[0]}
        figures["overhead"][ranks] = median
        print(
            f"{ranks} rank{'s' if ranks > 1 else ''}: {median['functions_us']:.2f} through xoe.torch, {median['module_us']:.2f} through"
            f" the module alone, {median['overhead_us']:.2f} more"
        )
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")


main()
