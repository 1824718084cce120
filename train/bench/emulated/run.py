#!/usr/bin/env python3
"""Weak scaling of ResNet-50's gradients on more ranks than there are cores: each rank sleeps as long as an accelerator would compute
(`xoe bench train --emulate-accelerator`), and really reduces. Beside DDP on Gloo with the same sleep. An emulation: what it shows is how much
communication a step hides, as far as the cores of this machine keep up with it.

    train/bench/emulated/run.py --ranks 1,2,4 --rounds 3
"""

import argparse
import json
import pathlib
import statistics
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "measure"))

from compare import processes

WORKER = pathlib.Path(__file__).with_name("worker.py")
GLOO = "DDP, Gloo"


class Bench:
    def __init__(self, options):
        self.options = options
        self.environment = processes.clean_environment(OMP_NUM_THREADS="1")

    def output_of(self, command, **variables):
        return processes.json_lines(processes.run(command, {**self.environment, **variables}, self.options.limit))[0]

    def xoe(self, ranks, hosts):
        """Images/s of all ranks."""
        options = self.options
        xoe = options.build / "bin" / "xoe"
        command = [
            xoe,
            "run",
            "-np",
            ranks,
            "--no-tag-output",
            xoe,
            "bench",
            "train",
            "--model",
            "resnet50",
            "--image-size",
            "32",
            "--json",
        ]
        command += [
            "--emulate-accelerator",
            options.images_per_s,
            "--batch-size",
            options.batch,
            "--num-batches",
            options.steps,
        ]
        command += ["--num-warmup-batches", options.warmup, "--traced-batches", "0"]
        found = self.output_of(command, **({"XOE_PRETEND_HOSTS": str(hosts)} if hosts > 1 else {}))
        return found["train_samples_per_sec"]

    def gloo(self, ranks):
        options = self.options
        numbers = [options.images_per_s, options.batch, options.steps, options.warmup]
        command = [
            options.python,
            "-m",
            "torch.distributed.run",
            "--standalone",
            "--nproc-per-node",
            ranks,
            WORKER,
            *numbers,
        ]
        return self.output_of(command)["images_per_s"]

    def measure(self, ranks, contestant):
        return self.gloo(ranks) if contestant == GLOO else self.xoe(ranks, contestant)


def title(contestant):
    return contestant if contestant == GLOO else f"Xoe, {contestant} host{'s' if contestant > 1 else ''}"


def main():
    def numbers(text):
        return [int(word) for word in text.split(",")]

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--python", default=str(ROOT / "build" / "peers" / "data-pytorch" / "bin" / "python"))
    parser.add_argument("--ranks", type=numbers, default=[1, 2, 4, 8, 16])
    parser.add_argument("--hosts", type=numbers, default=[1, 2, 4], help="pretended")
    parser.add_argument("--images-per-s", type=float, default=64.0, help="of an accelerator")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--warmup", type=int, default=4)
    parser.add_argument("--limit", type=float, default=600, help="seconds for one measurement")
    parser.add_argument("--json", type=pathlib.Path, help="write the figures there")
    options = parser.parse_args()
    bench = Bench(options)
    found = {}
    for number in range(options.rounds):
        for ranks in options.ranks:
            for contestant in [*(hosts for hosts in options.hosts if hosts <= ranks), GLOO]:
                speed = bench.measure(ranks, contestant)
                found.setdefault((ranks, contestant), []).append(speed)
                print(f"round {number + 1}: {ranks:>3} ranks, {title(contestant):<13} {speed:8.1f} images/s", flush=True)
    columns = [*options.hosts, GLOO]
    print(
        f"\nEMULATION: accelerators of {options.images_per_s:g} images/s, batch {options.batch}; efficiency, medians of {options.rounds} rounds"
    )
    print("ranks  " + "".join(f"{title(column):>14}" for column in columns))
    for ranks in options.ranks:
        cells = (found.get((ranks, column)) for column in columns)
        shares = (f"{statistics.median(cell) / ranks / options.images_per_s:14.1%}" if cell else f"{'':>14}" for cell in cells)
        print(f"{ranks:<7}" + "".join(shares))
    if options.json:
        options.json.write_text(json.dumps([[*key, values] for key, values in found.items()], indent=1) + "\n")


main()
