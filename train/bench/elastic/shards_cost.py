#!/usr/bin/env python3
"""What logical shards cost: the time and the CPU of a step of `xoe train --logical-shards V` beside the ordinary training of as many images a step.

For each number of ranks, in each round, in an order of its own: the ordinary training, with one pass for each rank; the one
with V shards; and the ordinary one with as many passes as a rank has shards (--accumulate), which tells how much of the cost is that
passes are smaller. Ratios are of one round, to the ordinary training in it; printed are their medians and ranges. CPU is that of all ranks, and
counts no time in which another program has the processors.

    train/bench/elastic/shards_cost.py --rounds 7
"""

import argparse
import collections
import pathlib
import random
import signal
import statistics
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
WARMUP = 4  # steps
sys.path.insert(0, str(ROOT / "measure"))

import jobs
from compare import processes
from compare.machine import machine
from compare.report import table


def figures(options, ranks, *more):
    """Seconds and CPU-seconds (of all ranks) of a step."""
    train = [
        options.bin / "xoe", "train", "--synthetic", "--model", options.model, "--image-size", options.image_size, "--classes", 10,
        "--device", "cpu", "--threads", 1, "--steps", 10**6, "--report-every", 1, "--json", *more,
    ]  # fmt: skip
    told = 'echo "{\\"event\\":\\"process\\",\\"rank\\":$XOE_RANK,\\"pid\\":$$}"; exec "$@"'
    job = jobs.Job([[options.bin / "xoe", "run", "-np", ranks, "sh", "-c", told, "sh", *train]], 600, processes.clean_environment())
    try:
        job.until(lambda: len(job.steps) >= WARMUP)
        pids = [job.process_of(rank) for rank in range(ranks)]
        begun, before = len(job.steps), sum(map(jobs.seconds_of_cpu, pids))
        job.until(lambda: len(job.steps) >= begun + options.steps)
        ended, after = len(job.steps), sum(map(jobs.seconds_of_cpu, pids))
        return (job.steps[ended - 1][0] - job.steps[begun - 1][0]) / (ended - begun), (after - before) / (ended - begun)
    finally:
        job.end()


def contestants(options, ranks):
    """{name: options of xoe train}, of as many images a step."""
    found = {"ordinary": ["--batch", options.images // ranks]}
    for shards in options.shards:
        each = options.images // shards
        found[f"{shards} shards"] = ["--logical-shards", shards, "--batch", each]
        if shards > ranks:
            found[f"{shards} passes"] = ["--accumulate", shards // ranks, "--batch", each]
    return found


def numbers(text):
    return [int(word) for word in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--ranks", type=numbers, default=[1, 2], help="(default 1,2)")
    parser.add_argument("--shards", type=numbers, default=[2, 4, 8], help="(default 2,4,8)")
    parser.add_argument("--images", type=int, default=32, help="of a step (default 32)")
    parser.add_argument("--model", default="resnet18")
    parser.add_argument("--image-size", type=int, default=32)
    parser.add_argument("--steps", type=int, default=12, help="that are measured (default 12)")
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build" / "release" / "bin")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # so that a training under way is ended
    facts = machine()
    print(f"{facts['cpu']}, {facts['cores']} cores; {options.model}, {options.images} images of {options.image_size}x{options.image_size} a step, one thread each")
    ratios = collections.defaultdict(list)
    for number in range(options.rounds):
        for ranks in options.ranks:
            all_of = contestants(options, ranks)
            order = random.Random(number).sample(sorted(all_of), len(all_of))
            found = {name: figures(options, ranks, *all_of[name]) for name in order}
            for name, one in found.items():
                ratios[ranks, name].append([value / of for value, of in zip(one, found["ordinary"], strict=True)])
            told = ", ".join(f"{name} {wall:.3f} ({cpu:.3f} CPU)" for name, (wall, cpu) in sorted(found.items()))
            print(f"round {number + 1}, ranks {ranks}: seconds of a step: {told}", flush=True)
    rows = []
    for (ranks, name), found in sorted(ratios.items()):
        if name != "ordinary":
            of = [f"{statistics.median(one):.2f} ({min(one):.2f} to {max(one):.2f})" for one in zip(*found, strict=True)]
            rows.append([ranks, name, *of])
    print(table(["ranks", "training", "time of a step / ordinary", "CPU of a step / ordinary"], rows))


if __name__ == "__main__":
    main()
