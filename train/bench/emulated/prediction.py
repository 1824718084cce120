#!/usr/bin/env python3
"""Predictions of `xoe bench scale` and `xoe bench predict` beside measurements that they were not fitted on: ResNet-50's gradients,
emulated accelerators on this host.

    train/bench/emulated/prediction.py --fitted 1,2,4,8 --held-out 16

`scale` fits its cost model to the smaller sizes and predicts the larger; `predict` simulates them from one rank's training and from
allreduces of a few ranks. The larger sizes are measured in turns with the smaller. Fails where a prediction is off by more than
--allowed.
"""

import argparse
import json
import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "measure"))

from compare import processes


class Bench:
    def __init__(self, options, scratch):
        self.options, self.scratch = options, pathlib.Path(scratch)
        self.environment = processes.clean_environment(OMP_NUM_THREADS="1")

    def xoe(self, *words):
        return processes.run([self.options.build / "bin" / "xoe", *words], self.environment, self.options.limit)

    def scale(self, sizes, repeat):
        options = self.options
        return json.loads(self.xoe("bench", "scale", "--ranks", ",".join(map(str, sizes)), "--batch-size", options.batch,
                                   "--repeat", repeat, "--emulate-accelerator", options.images_per_s, "--json", "--",
                                   "--model", options.model, "--image-size", 32, "--num-batches", options.steps,
                                   "--num-warmup-batches", options.warmup, "--traced-batches", 0))

    def simulated(self, result, sizes):
        """By ranks: images/s, from a result of one rank and allreduces of the fitted sizes."""
        train = self.scratch / "train.json"
        train.write_text(json.dumps(result))
        local = self.scratch / "local.json"
        most = max(self.options.fitted)
        self.xoe("run", "-np", most, "--oversubscribe", self.options.build / "bin" / "xoe", "bench", "collectives", "-b", "64K",
                 "-e", "64M", "-f", "4", "-n", "5", "-w", "1", "--memory", "shared", "--rewrite", "--output", local)
        found = json.loads(self.xoe("bench", "predict", train, "--local", local, "--latency", 1, "--bandwidth", 1000,
                                    "--ranks-per-host", max(sizes), "--ranks", ",".join(map(str, sizes)), "--json"))
        return {one["ranks"]: one["images_per_s"] for one in found["sizes"]}


def main():
    def numbers(text):
        return sorted(int(word) for word in text.split(","))

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--fitted", type=numbers, default=[1, 2, 4, 8])
    parser.add_argument("--held-out", type=numbers, default=[16], help="of the powers of two times the largest fitted size")
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--images-per-s", type=float, default=64.0, help="of an accelerator")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--warmup", type=int, default=4)
    parser.add_argument("--allowed", type=float, default=0.10, help="largest relative error")
    parser.add_argument("--limit", type=float, default=1800, help="seconds for one measurement")
    parser.add_argument("--json", type=pathlib.Path, help="write the figures there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="xoe-prediction-") as scratch:
        bench = Bench(options, scratch)
        fitted = bench.scale(options.fitted, options.rounds)
        held_out = bench.scale(options.held_out, options.rounds)
        measured = {one["ranks"]: one["images_per_s"] for one in held_out["sizes"]}
        predictions = {"scale": {one["ranks"]: one["images_per_s"] for one in fitted["predicted"]},
                       "predict": bench.simulated(fitted["sizes"][0]["result"], options.held_out)}
    print(f"EMULATION: {options.model}, accelerators of {options.images_per_s:g} images/s, batch {options.batch}; fitted on "
          f"{', '.join(map(str, options.fitted))} ranks")
    print(f"{'ranks':<7}{'measured':>12}" + "".join(f"{name:>12}{'error':>9}" for name in predictions))
    worst = 0.0
    for ranks, speed in measured.items():
        cells = ""
        for predicted in predictions.values():
            error = predicted[ranks] / speed - 1
            worst = max(worst, abs(error))
            cells += f"{predicted[ranks]:>12.1f}{error:>+9.1%}"
        print(f"{ranks:<7}{speed:>12.1f}{cells}")
    if options.json:
        options.json.write_text(json.dumps({"fitted": fitted, "held_out": held_out, "predictions": predictions}, indent=1) + "\n")
    if worst > options.allowed:
        sys.exit(f"error: a prediction is off by {worst:.1%}, and {options.allowed:.0%} are allowed")


main()
