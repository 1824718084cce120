#!/usr/bin/env python3
"""Weak scaling of ResNet-50's gradients on more ranks than there are cores: each rank sleeps as long as an accelerator would compute
(`xoe bench train --emulate-accelerator`), and really reduces. Beside DDP on Gloo with the same sleep. An emulation: what it shows is how much
communication a step hides, as far as the cores of this machine keep up with it.

    train/bench/emulated/run.py --ranks 1,2,4 --rounds 3
"""

import pathlib
import statistics
import sys
from functools import partial

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "measure"))

from compare import peers, processes
from compare.program import Comparison, number_list, parse, parser_of, values_of
from compare.report import table

WORKER = pathlib.Path(__file__).with_name("worker.py")
GLOO = "DDP with Gloo"
SECONDS = 600  # for one measurement


class Bench:
    def __init__(self, options):
        self.options = options
        self.environment = processes.clean_environment(OMP_NUM_THREADS="1")

    def output_of(self, command, **variables):
        return processes.json_lines(processes.run(command, {**self.environment, **variables}, SECONDS))[0]

    def xoe(self, ranks, hosts):
        """Images/s of all ranks."""
        options = self.options
        xoe = options.bin / "xoe"
        command = [
            xoe, "run", "-np", ranks, "--no-tag-output", xoe, "bench", "train", "--model", "resnet50", "--image-size", 32,
            "--json", "--emulate-accelerator", options.images_per_s, "--batch-size", options.batch,
            "--num-batches", options.steps, "--num-warmup-batches", options.warmup, "--traced-batches", 0,
        ]  # fmt: skip
        found = self.output_of(command, **({"XOE_PRETEND_HOSTS": str(hosts)} if hosts > 1 else {}))
        return found["train_samples_per_sec"]

    def gloo(self, ranks):
        options = self.options
        numbers = [options.images_per_s, options.batch, options.steps, options.warmup]
        torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", ranks]
        return self.output_of([options.python, *torchrun, WORKER, *numbers])["images_per_s"]

    def contestants(self):
        found = {}
        for ranks in self.options.ranks:
            for hosts in [hosts for hosts in self.options.hosts if hosts <= ranks]:
                found[label(ranks, title(hosts))] = partial(self.xoe, ranks, hosts)
            found[label(ranks, GLOO)] = partial(self.gloo, ranks)
        return found


def label(ranks, name):
    return f"{ranks} ranks, {name}"


def title(hosts):
    return f"Xoe on {hosts} host{'s' if hosts > 1 else ''}"


def names_of(options):
    return [*map(title, options.hosts), GLOO]


def table_of(options, rounds):
    names, rows = names_of(options), []
    for ranks in options.ranks:
        cells = (values_of(rounds, label(ranks, name)) for name in names)
        rows.append([ranks, *(f"{statistics.median(one) / ranks / options.images_per_s:.1%}" if one else "" for one in cells)])
    return table(["ranks", *names], rows)


def rows_of(options, rounds):
    """For the file of measurements."""
    for ranks in options.ranks:
        for name in names_of(options):
            for speed in values_of(rounds, label(ranks, name)):
                yield name, f"images/s, {ranks} ranks", False, speed


def parse_arguments():
    parser = parser_of(__doc__, rounds=3, limit=60)
    parser.add_argument("--python", default=str(ROOT / "build" / "peers" / "data-pytorch" / "bin" / "python"))
    parser.add_argument("--ranks", type=number_list, default=[1, 2, 4, 8, 16])
    parser.add_argument("--hosts", type=number_list, default=[1, 2, 4], help="pretended")
    parser.add_argument("--images-per-s", type=float, default=64.0, help="of an accelerator")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--warmup", type=int, default=4)
    return parse(parser, {}, rounds=1, steps=3, warmup=1)


def main():
    arguments = parse_arguments()
    comparison, bench = Comparison(arguments), Bench(arguments)
    comparison.versions = {"Xoe": peers.revision()}
    rounds = comparison.measure(bench.contestants(), lambda speed: f"{speed:.1f} images/s")
    what = f"EMULATION: accelerators of {arguments.images_per_s:g} images/s, batch {arguments.batch}"
    print(f"\n{what}; efficiency, medians of {len(rounds)} rounds\n{table_of(arguments, rounds)}")
    comparison.figures = rounds
    comparison.save("emulated", what, rows_of(arguments, rounds))


if __name__ == "__main__":
    main()
