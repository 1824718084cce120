#!/usr/bin/env python3
"""Measures Xoe's networks on this machine's CPU: parameters, images/s of `xoe train --synthetic` in one process, its largest memory, and
how far outputs and gradients are from torchvision's (train/tests/networks/reference.py). ResNet-50 is then trained in turns with the same network of
torchvision in PyTorch: as it is, with channels last and glibc's settings as Xoe has them, and compiled.

    train/bench/models/run.py --threads 2 --models resnet50,densenet121
"""

import os
import pathlib
import statistics
import sys
from functools import partial

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "measure"))

from compare import peers, processes
from compare.program import Comparison, parse, parser_of, ratios_of, values_of, word_list
from compare.report import table

WORKER = pathlib.Path(__file__).with_name("worker.py")
REFERENCE = ROOT / "train/tests/networks/reference.py"
CIFAR = ("resnet20", "resnet32", "resnet44", "resnet56", "resnet110")
MODELS = ("resnet18", "resnet34", "resnet50", "resnet101", "resnet152", "resnet50_v2", "resnet101_v2", "resnet152_v2", *CIFAR,
          "densenet121", "alexnet", "vgg11", "vgg13", "vgg16", "vgg19", "googlenet", "inception_v3", "mobilenet_v2",
          *(f"efficientnet_b{i}" for i in range(8)), "efficientnet_v2_s", "vit_tiny", "vit_s16", "vit_b16", "vit_l16", "vit_h14")  # fmt: skip
PUBLISHED = {"inception_v3": 299, **dict.fromkeys(CIFAR, 32)}  # others: 224
XOE = "xoe train"
PEERS = {
    "PyTorch, eager": (),
    "PyTorch, channels last, kept": ("--channels-last", "--keep"),
    "PyTorch, channels last, kept, torch.compile": ("--channels-last", "--keep", "--compile"),
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
        command = [self.options.bin / "xoe", "train", "--synthetic", "--model", model, "--json", "--device", "cpu"]
        command += ["--threads", self.options.threads, "--lr", "1e-4", "--warmup-steps", self.options.warmup, *self.sizes(model)]
        lines, memory = self.finish(command)
        start, end = lines[0], lines[-1]
        return {"parameters": start["parameters"], "images_per_s": end["images_per_s"], "memory_bytes": memory}

    def peer(self, model, peer):
        command = [self.options.python, WORKER, model, *self.sizes(model), *PEERS[peer], "--warmup", self.options.warmup]
        command[command.index("--steps") + 1] = self.options.steps
        lines, memory = self.finish(command)
        return {"images_per_s": lines[-1]["images_per_s"], "memory_bytes": memory}

    def equality(self, model):
        """The largest difference of an output, gradient or buffer from torchvision's, as a share of the largest number in its tensor."""
        program = self.options.bin.parent / "tests" / "xoe_model_outputs"
        lines, _ = self.finish([self.options.python, REFERENCE, "--program", program, model])
        return max(line["difference"] for line in lines)


def alone(comparison, bench):
    """All networks, one after the other."""
    options, found = comparison.arguments, {}
    for model in options.models:
        figures = comparison.attempt(model, bench.train, model)
        if figures is None:
            continue
        if not options.no_equality:
            figures["difference"] = comparison.attempt(f"{model}, equality", bench.equality, model)
        found[model] = figures
        comparison.say(f"{model}: {figures['images_per_s']:.2f} images/s")
    rows = [
        [model, f"{one['parameters']:,}", f"{one['images_per_s']:.2f}", f"{one['memory_bytes'] >> 20:,}",
         f"{one['difference']:.1e}" if one.get("difference") is not None else "-"]
        for model, one in found.items()
    ]  # fmt: skip
    title = f"batch {options.batch}, threads: {options.threads}"
    head = [title, "parameters", "images/s", "memory MiB", "differs from torchvision by"]
    print(f"\n{table(head, rows)}")
    return found


def beside(comparison, bench):
    """Xoe and PyTorch in turns: images/s of each round."""
    contestants = {XOE: partial(bench.train, "resnet50")} | {name: partial(bench.peer, "resnet50", name) for name in PEERS}
    found = comparison.measure(contestants, lambda figures: f"{figures['images_per_s']:.2f} images/s")
    rounds = [{name: figures["images_per_s"] for name, figures in measured.items()} for measured in found]
    rows = []
    for name in contestants:
        speeds, ratios = values_of(rounds, name), ratios_of(rounds, XOE, name)
        rows.append([name, *(f"{statistics.median(values):.2f}" if values else "-" for values in (speeds, ratios))])
    print(f"\nresnet50, medians of {len(rounds)} rounds\n{table(['', 'images/s', 'Xoe / it'], rows)}")
    return rounds


def rows_of(networks, rounds):
    """For the file of measurements."""
    for model, found in networks.items():
        yield XOE, f"images/s, {model}", False, found["images_per_s"]
        yield XOE, f"MiB of memory, {model}", True, found["memory_bytes"] / (1 << 20)
    for name in (XOE, *PEERS):
        yield from ((name, "images/s, resnet50 in turns", False, speed) for speed in values_of(rounds, name))


def parse_arguments():
    parser = parser_of(__doc__, rounds=3, limit=60)
    parser.add_argument("--python", default=str(ROOT / "build" / "peers" / "data-pytorch" / "bin" / "python"))
    parser.add_argument("--models", type=word_list, default=list(MODELS))
    parser.add_argument("--threads", type=int, default=1, help="of each process")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--image-size", type=int, help="default: 224, and 299 for inception_v3")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--no-equality", action="store_true", help="do not compare with torchvision")
    return parse(parser, {"models": MODELS}, rounds=1, models=["resnet18", "resnet50"], steps=2, warmup=1)


def main():
    arguments = parse_arguments()
    comparison, bench = Comparison(arguments), Bench(arguments)
    comparison.versions = {"Xoe": peers.revision()}
    networks = alone(comparison, bench)
    rounds = beside(comparison, bench) if "resnet50" in networks else []
    comparison.figures = rounds
    title = f"Networks of xoe train, batch {arguments.batch}, threads: {arguments.threads}"
    comparison.save("models", title, rows_of(networks, rounds), networks=networks)


if __name__ == "__main__":
    main()
