"""Trains torchvision's network on one random batch, as `xoe train --synthetic` does: SGD with momentum and weight decay, loss and accuracy
read in each step. Prints a JSON line: {"images_per_s"}.

    worker.py MODEL --batch 8 --image-size 224 [--channels-last] [--keep] [--compile]

With --keep glibc keeps what a step frees, as Xoe tells it to.
"""

import argparse
import json
import os
import pathlib
import sys
import time

import torch
from torch.nn import functional

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path += [str(ROOT / "train/tests/networks"), str(ROOT / "frameworks/bench/python")]
import reference
from keep import keep_freed_memory

AUXILIARY = {"inception_v3": 0.4, "googlenet": 0.3}  # weights of auxiliary classifiers' losses, as in train/networks


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--image-size", type=int, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--warmup", type=int, required=True)
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--compile", action="store_true")
    options = parser.parse_args()

    if options.keep:
        keep_freed_memory()
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    torch.manual_seed(1)
    order = torch.channels_last if options.channels_last else torch.contiguous_format
    model = reference.build(options.model, 1000, options.image_size).to(memory_format=order)
    network = torch.compile(model) if options.compile else model
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9, weight_decay=5e-5)
    images = torch.randn(options.batch, 3, options.image_size, options.image_size).contiguous(memory_format=order)
    labels = torch.randint(1000, (options.batch,))
    times = []
    for _ in range(options.warmup + options.steps):
        start = time.perf_counter()
        optimizer.zero_grad()
        logits, auxiliary = reference.outputs_of(network(images))
        loss = functional.cross_entropy(logits, labels)
        total = loss + sum(AUXILIARY[options.model] * functional.cross_entropy(other, labels) for other in auxiliary)
        correct = (logits.argmax(1) == labels).sum()
        total.backward()
        loss.item()
        correct.item()
        optimizer.step()
        times.append(time.perf_counter() - start)
    print(json.dumps({"images_per_s": options.batch * options.steps / sum(times[options.warmup :])}), flush=True)


main()
