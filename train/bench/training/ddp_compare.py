#!/usr/bin/env python3
"""Measures the cost of data-parallel training.

Two workers train one ResNet-50 together, and two train independently at the same time (the ceiling: they share only the
machine's memory and cores). The contestants are Xoe, Xoe with the sharded optimizer, and PyTorch DDP over Gloo. Each is
compared with two lone workers of plain PyTorch, which do not use Xoe at all, and Xoe also with its own lone workers, whose
optimizer and allocator settings are Xoe's. Rounds are interleaved in random order, so that all contestants see the same states
of the machine; figures are medians of ratios within a round.

    python train/bench/training/ddp_compare.py --rounds 5
"""

import importlib.util
import os
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "measure"))

from compare import peers, processes
from compare.program import Comparison, parse, parser_of, ratios_of, values_of
from compare.report import table

WORKER = pathlib.Path(__file__).with_name("torch_worker.py")
SECONDS = 900  # for one measurement


def finish(started):
    """The last JSON line of each process that printed one."""
    outputs = processes.outputs_of(started, SECONDS, shown=(0, 2000))
    return [lines[-1] for lines in map(processes.json_lines, outputs) if lines]


def start(command, **more):
    return processes.start(command, {**os.environ, "OMP_NUM_THREADS": "1", **more})


class Contest:
    def __init__(self, options):
        self.options = options
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
        return self.alone([self.options.bin / "xoe-train", *self.train])

    def alone(self, command):
        started = [start(command) for _ in range(self.options.workers)]
        return sum(result["images_per_s"] for result in finish(started))

    def xoe_together(self, *more):
        run = [self.options.bin / "xoe", "run", "--no-tag-output", "-np", self.options.workers]
        return finish([start([*run, self.options.bin / "xoe-train", *self.train, *more])])[0]["images_per_s"]

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
        return finish(started)[0]["images_per_s"]


    def contestants(self):
        found = {"Xoe alone": self.xoe_alone, "Xoe": self.xoe_together, "Xoe sharded": self.xoe_sharded}
        if self.options.model == "resnet50" and importlib.util.find_spec("torch") is not None:
            found |= {"PyTorch alone": self.ddp_alone, DDP: self.ddp_together}
        return {name: measure for name, measure in found.items() if name in (self.options.peers or NAMES)}


DDP = "PyTorch DDP (Gloo)"
NAMES = ("Xoe alone", "Xoe", "Xoe sharded", "PyTorch alone", DDP)


def share_text(rounds, together, alone):
    ratios = ratios_of(rounds, together, alone)
    return f"{statistics.median(ratios):.1%} ({min(ratios):.1%} to {max(ratios):.1%})" if ratios else "-"


def table_of(rounds):
    rows = []
    for name in NAMES:
        if speeds := values_of(rounds, name):
            plain, own = (share_text(rounds, name, alone) for alone in ("PyTorch alone", "Xoe alone"))
            cells = [plain, "-" if name == DDP else own] if "alone" not in name else ["", ""]
            rows.append([name, f"{statistics.median(speeds):.2f}", *cells])
    return table(["", "images/s", "of plain lone workers", "of its own"], rows)


def parse_arguments():
    parser = parser_of(__doc__, rounds=5, limit=120, peers=f"of {','.join(NAMES)}")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--model", default="resnet50", help="of Xoe; PyTorch runs resnet50 only")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--image-size", type=int, default=64)
    return parse(parser, {"peers": NAMES}, rounds=1, steps=5, warmup=2)


def main():
    arguments = parse_arguments()
    comparison = Comparison(arguments)
    torch = peers.gloo_version() or "not installed (requirements/bench.txt)"
    comparison.versions = {"Xoe": peers.revision(), "PyTorch": torch}
    contestants = Contest(arguments).contestants()
    rounds = comparison.measure(contestants, lambda speed: f"{speed:.2f} images/s")
    comparison.figures = rounds
    print(f"\n{table_of(rounds)}")
    quantity = f"images/s, {arguments.model}, batch {arguments.batch} at {arguments.image_size}"
    rows = ((name, quantity, False, speed) for name in contestants for speed in values_of(rounds, name))
    comparison.save("training", "Training together beside training alone", rows)


if __name__ == "__main__":
    main()
