#!/usr/bin/env python3
"""Measures the cost of data-parallel training.

Two workers train one ResNet-50 together, and two train independently at the same time (the ceiling: they share only the
machine's memory and cores). The contestants are Xoe, Xoe with the sharded optimizer, and PyTorch DDP over Gloo. Each is
compared with two lone workers of plain PyTorch, which do not use Xoe at all, and Xoe also with its own lone workers, whose
optimizer and allocator settings are Xoe's. Rounds are interleaved in random order, so that all contestants see the same states
of the machine; figures are medians of ratios within a round.

    python train/bench/training/ddp_compare.py --bin build/release/bin --rounds 5
"""

import argparse
import importlib.util
import json
import os
import pathlib
import random
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "measure"))

from compare import processes

WORKER = pathlib.Path(__file__).with_name("torch_worker.py")


def finish(started, limit):
    """The last JSON line of each process that printed one."""
    outputs = processes.outputs_of(started, limit, shown=(0, 2000))
    return [lines[-1] for lines in map(processes.json_lines, outputs) if lines]


def start(command, **more):
    return processes.start(command, {**os.environ, "OMP_NUM_THREADS": "1", **more})


class Contest:
    def __init__(self, options):
        self.options = options
        self.bin = pathlib.Path(options.bin)
        self.train = [
            "--synthetic", "--model", options.model, "--batch", options.batch, "--image-size", options.image_size,
            "--threads", 1, "--device", "cpu", "--steps", options.steps + options.warmup, "--warmup-steps",
            options.warmup, "--report-every", options.steps + options.warmup, "--lr", 1e-4, "--lr-batch", 0, "--json",
        ]  # fmt: skip
        self.torch = [
            sys.executable, WORKER, "--batch", options.batch, "--image-size", options.image_size, "--steps",
            options.steps, "--warmup", options.warmup,
        ]  # fmt: skip

    def xoe_alone(self):
        return self.alone([self.bin / "xoe-train", *self.train])

    def alone(self, command):
        started = [start(command) for _ in range(self.options.workers)]
        return sum(result["images_per_s"] for result in finish(started, self.options.limit))

    def xoe_together(self, *more):
        command = [self.bin / "xoe", "run", "--no-tag-output", "-np", self.options.workers, self.bin / "xoe-train", *self.train, *more]
        return finish([start(command)], self.options.limit)[0]["images_per_s"]

    def xoe_sharded(self):
        return self.xoe_together("--sharded")

    def ddp_alone(self):
        return self.alone(self.torch)

    def ddp_together(self):
        port = str(processes.free_ports(1)[0])
        size = str(self.options.workers)
        started = [
            start([*self.torch, "--ddp"], RANK=str(rank), WORLD_SIZE=size, MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
            for rank in range(self.options.workers)
        ]
        return finish(started, self.options.limit)[0]["images_per_s"]


TOGETHER = {"Xoe": "xoe", "Xoe, sharded": "xoe sharded", "PyTorch DDP (Gloo)": "ddp"}
ALONE = {"plain": "ddp alone", "own": "xoe alone"}


def shares(rounds, together, alone):
    values = [measured[together] / measured[alone] for measured in rounds]
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def table(rounds, entries):
    lines = ["", f"{'':<22}{'images/s':>10}{'of plain lone workers':>30}{'of its own':>30}"]
    results = {}
    for label, together in TOGETHER.items():
        if together not in entries:
            continue
        speed = statistics.median(measured[together] for measured in rounds)
        results[label] = {"images_per_s": speed}
        cells = []
        for kind, alone in ALONE.items():
            if alone not in entries or (kind == "own" and together == "ddp"):
                cells.append("-")
                continue
            share = results[label][kind] = shares(rounds, together, alone)
            cells.append(f"{share['median']:.1%} ({share['min']:.1%} to {share['max']:.1%})")
        lines.append(f"{label:<22}{speed:>10.2f}{cells[0]:>30}{cells[1]:>30}")
    for alone in ALONE.values():
        if alone in entries:
            speed = statistics.median(measured[alone] for measured in rounds)
            lines.append(f"{alone + ' (sum)':<22}{speed:>10.2f}")
    return lines, results


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/release/bin", help="folder of xoe and xoe-train")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--model", default="resnet50", help="of Xoe; PyTorch runs resnet50 only")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--image-size", type=int, default=64)
    parser.add_argument("--limit", type=float, default=900, help="seconds for one measurement")
    parser.add_argument("--no-torch", action="store_true", help="leave PyTorch out")
    parser.add_argument("--json", type=pathlib.Path, help="write the figures there")
    options = parser.parse_args()

    contest = Contest(options)
    entries = {"xoe alone": contest.xoe_alone, "xoe": contest.xoe_together, "xoe sharded": contest.xoe_sharded}
    with_torch = not options.no_torch and options.model == "resnet50"
    if with_torch and importlib.util.find_spec("torch") is None:
        print("PyTorch is not installed for this Python: comparing Xoe only (see requirements/bench.txt)")
        with_torch = False
    if with_torch:
        entries |= {"ddp alone": contest.ddp_alone, "ddp": contest.ddp_together}

    rounds = []
    for number in range(options.rounds):
        order = list(entries)
        random.Random(number).shuffle(order)
        measured = {}
        for name in order:
            measured[name] = entries[name]()
            print(f"round {number + 1}/{options.rounds}  {name:<12} {measured[name]:8.2f} images/s", flush=True)
        rounds.append(measured)

    lines, results = table(rounds, entries)
    print("\n".join(lines))
    if options.json:
        settings = {key: value for key, value in vars(options).items() if key not in ("json", "bin")}
        options.json.write_text(json.dumps({"settings": settings, "rounds": rounds, "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
