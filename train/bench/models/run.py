#!/usr/bin/env python3
"""Measures Xoe's networks on this machine's CPU: parameters, images/s of `xoe train --synthetic` in one process, its largest memory, and
how far outputs and gradients are from torchvision's (train/tests/networks/reference.py). ResNet-50 is then trained in turns with the same network of
torchvision in PyTorch: as it is, with channels last and glibc's settings as Xoe has them, and compiled.

    train/bench/models/run.py --threads 2 --models resnet50,densenet121
"""

import argparse
import json
import os
import pathlib
import statistics
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "measure"))

from compare import processes

WORKER = pathlib.Path(__file__).with_name("worker.py")
REFERENCE = ROOT / "train/tests/networks/reference.py"
MODELS = ("resnet18", "resnet50", "resnet101", "resnet152", "densenet121", "vgg16", "mobilenet_v2", "efficientnet_b0",
          "efficientnet_v2_s", "inception_v3", "vit_tiny", "vit_s16", "vit_b16")  # fmt: skip
PUBLISHED = {"inception_v3": 299}  # others: 224
PEERS = {
    "eager": ("PyTorch, eager", ()),
    "eager-kept": ("the same, channels last, kept", ("--channels-last", "--keep")),
    "compiled": ("the same, torch.compile", ("--channels-last", "--keep", "--compile")),
}


class Bench:
    def __init__(self, options):
        self.options = options
        self.environment = processes.clean_environment(OMP_NUM_THREADS=str(options.threads))

    def finish(self, command):
        """The JSON lines that it prints, and its largest resident memory in bytes."""
        process = processes.start(command, self.environment)
        out, err = process.stdout.read(), process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        processes.need_success(process.args, process.returncode, out, err, shown=(2000, 2000))
        return processes.json_lines(out), usage.ru_maxrss * 1024

    def sizes(self, model):
        size = self.options.image_size or PUBLISHED.get(model, 224)
        given = {"--batch": self.options.batch, "--image-size": size, "--steps": self.options.steps + self.options.warmup}
        return [word for pair in given.items() for word in pair]

    def train(self, model):
        command = [self.options.build / "bin" / "xoe", "train", "--synthetic", "--model", model, "--json", "--device", "cpu"]
        command += ["--threads", self.options.threads, "--lr", "1e-4", "--warmup-steps", self.options.warmup, *self.sizes(model)]
        lines, memory = self.finish(command)
        start, end = lines[0], lines[-1]
        return {"parameters": start["parameters"], "images_per_s": end["images_per_s"], "memory_bytes": memory}

    def peer(self, model, peer):
        command = [self.options.python, WORKER, model, *self.sizes(model), *PEERS[peer][1], "--warmup", self.options.warmup]
        command[command.index("--steps") + 1] = self.options.steps
        lines, memory = self.finish(command)
        return {"images_per_s": lines[-1]["images_per_s"], "memory_bytes": memory}

    def equality(self, model):
        """The largest difference of an output, gradient or buffer from torchvision's, as a share of the largest number in its tensor."""
        program = self.options.build / "tests" / "xoe_model_outputs"
        lines, _ = self.finish([self.options.python, REFERENCE, "--program", program, model])
        return max(line["difference"] for line in lines)


def compare(bench, model):
    """Xoe and PyTorch in turns."""
    rounds = []
    for number in range(bench.options.rounds):
        found = {"xoe": bench.train(model)} | {peer: bench.peer(model, peer) for peer in PEERS}
        rounds.append({peer: figures["images_per_s"] for peer, figures in found.items()})
        print(f"{model}, round {number + 1}: " + ", ".join(f"{peer} {speed:.2f}" for peer, speed in rounds[-1].items()), flush=True)
    print(f"\n{model}, medians of {len(rounds)} rounds{'':<8}{'images/s':>10}{'Xoe / it':>12}")
    medians = {}
    for peer in rounds[0]:
        speed = statistics.median(one[peer] for one in rounds)
        ratio = statistics.median(one["xoe"] / one[peer] for one in rounds)
        medians[peer] = {"images_per_s": speed, "xoe_ratio": ratio}
        print(f"{PEERS[peer][0] if peer in PEERS else 'xoe train':<40}{speed:>10.2f}{ratio:>12.2f}")
    return {"rounds": rounds, "medians": medians}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--python", default=str(ROOT / "build" / "peers" / "data-pytorch" / "bin" / "python"))
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--threads", type=int, default=1, help="of each process")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--image-size", type=int, help="default: 224, and 299 for inception_v3")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3, help="of ResNet-50 beside PyTorch; 0: none")
    parser.add_argument("--no-equality", action="store_true", help="do not compare with torchvision")
    parser.add_argument("--json", type=pathlib.Path, help="write the figures there")
    options = parser.parse_args()

    bench = Bench(options)
    figures = {}
    title = f"batch {options.batch}, {options.threads} thread{'s' if options.threads > 1 else ''}"
    print(f"{title:<22}{'parameters':>13}{'images/s':>10}{'memory MiB':>12}{'differs from torchvision by':>29}")
    for model in options.models.split(","):
        found = bench.train(model)
        if not options.no_equality:
            found["difference"] = bench.equality(model)
        figures[model] = found
        difference = f"{found['difference']:.1e}" if "difference" in found else "-"
        print(f"{model:<22}{found['parameters']:>13,}{found['images_per_s']:>10.2f}{found['memory_bytes'] >> 20:>12,}{difference:>29}", flush=True)
    found = {"settings": {"batch": options.batch, "threads": options.threads}, "models": figures}
    if "resnet50" in figures and options.rounds:
        print()
        found["resnet50"] = compare(bench, "resnet50")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


main()
