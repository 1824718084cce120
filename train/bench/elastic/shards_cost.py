#!/usr/bin/env python3
"""What logical shards cost: images/s of `xoe train --logical-shards V` beside the ordinary training of as many images a step.

For each number of ranks, in each round, in an order of its own: the ordinary training, with one pass for each rank; the one
with V shards; and the ordinary one with as many passes as a rank has shards (--accumulate), which tells how much of the cost is that
passes are smaller. Ratios are of one round, to the ordinary training in it; printed are their medians and ranges.

    train/bench/elastic/shards_cost.py --rounds 7
"""

import argparse
import collections
import json
import pathlib
import random
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "measure"))

from compare.machine import machine
from compare.report import table


def speed(options, ranks, *more):
    train = [
        options.bin / "xoe", "train", "--synthetic", "--model", options.model, "--image-size", options.image_size, "--classes", 10,
        "--device", "cpu", "--threads", 1, "--steps", options.steps, "--warmup-steps", 3, "--report-every", 1000, "--json", *more,
    ]  # fmt: skip
    words = [str(word) for word in [options.bin / "xoe", "run", "-np", ranks, *train]]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(words)}: {done.stdout}{done.stderr}")
    lines = [json.loads(line[line.index("{"):]) for line in done.stdout.splitlines() if '{"event"' in line]  # fmt: skip
    return next(line["images_per_s"] for line in lines if line["event"] == "end")


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
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build" / "release" / "bin")
    options = parser.parse_args()
    facts = machine()
    print(f"{facts['cpu']}, {facts['cores']} cores; {options.model}, {options.images} images of {options.image_size}x{options.image_size} a step, one thread each")
    ratios = collections.defaultdict(list)
    ordinary = collections.defaultdict(list)
    for number in range(options.rounds):
        for ranks in options.ranks:
            all_of = contestants(options, ranks)
            order = random.Random(number).sample(sorted(all_of), len(all_of))
            found = {name: speed(options, ranks, *all_of[name]) for name in order}
            ordinary[ranks].append(found["ordinary"])
            for name, value in found.items():
                ratios[ranks, name].append(value / found["ordinary"])
            told = ", ".join(f"{name} {value:.1f}" for name, value in sorted(found.items()))
            print(f"round {number + 1}, {ranks} ranks: {told} images/s", flush=True)
    rows = [
        [ranks, name, f"{statistics.median(found):.2f}", f"{min(found):.2f} to {max(found):.2f}"]
        for (ranks, name), found in sorted(ratios.items()) if name != "ordinary"
    ]  # fmt: skip
    print(table(["ranks", "training", "of the ordinary one's images/s", "range"], rows))
    for ranks, found in ordinary.items():
        print(f"ordinary on {ranks} ranks: {statistics.median(found):.1f} images/s")


if __name__ == "__main__":
    main()
