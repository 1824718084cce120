#!/usr/bin/env python3
"""What a step costs with the optimizers of xoe.torch, against two plain copies of PyTorch that share only the machine.

Two ranks, one thread each, every contestant in processes of its own, rounds in turn; CPU-ms a step of the slower rank, which the load
of the machine disturbs less than time does. "_m": with glibc told to keep what a step frees, which saves page faults in any program.

    python bench/python/sharded.py --rounds 5 --model resnet50 --bin build/release/bin
"""

import argparse
import ctypes
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONTESTANTS = ("alone", "alone_m", "distributed", "distributed_m", "sharded", "sharded_m")
RANKS = 2
RANK = int(os.environ.get("XOE_RANK", "0"))


def keep_freed_memory():
    libc = ctypes.CDLL(None)
    libc.mallopt(-1, 1 << 30)  # M_TRIM_THRESHOLD
    libc.mallopt(-3, 32 << 20)  # M_MMAP_THRESHOLD


def resnet50(torch, batch):
    sys.path.insert(0, str(ROOT / "bench" / "training"))
    from torch_worker import ResNet50

    model = ResNet50().to(memory_format=torch.channels_last)
    torch.manual_seed(RANK)
    images = torch.randn(batch, 3, 64, 64).contiguous(memory_format=torch.channels_last)
    labels = torch.randint(1000, (batch,))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9, weight_decay=5e-5)
    return model, optimizer, lambda: torch.nn.functional.cross_entropy(model(images), labels)


def gpt(torch, batch):
    width, words, length = 384, 8192, 64

    class Gpt(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.words = torch.nn.Embedding(words, width)
            self.places = torch.nn.Parameter(torch.zeros(length, width))
            layer = torch.nn.TransformerEncoderLayer(
                width, 6, 4 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
            )
            self.layers = torch.nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)
            self.mask = torch.nn.Transformer.generate_square_subsequent_mask(length)

        def forward(self, tokens):
            x = self.layers(self.words(tokens) + self.places, mask=self.mask, is_causal=True)
            return x @ self.words.weight.T

    model = Gpt()
    torch.manual_seed(RANK)
    tokens = torch.randint(words, (batch, length + 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def loss():
        return torch.nn.functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())

    return model, optimizer, loss


MODELS = {"resnet50": resnet50, "gpt": gpt}


def work(options):
    """A rank: prints the CPU-ms and the ms of a step."""
    if options.role.endswith("_m"):
        keep_freed_memory()
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(1)
    model, optimizer, loss_of = MODELS[options.model](torch, options.batch)
    kind = options.role.removesuffix("_m")
    if kind != "alone":
        import xoe.torch as hvd

        hvd.init()
        optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters(), sharded=kind == "sharded")
    spent, taken = [], []
    for step in range(options.warmup + options.steps):
        started, used = time.perf_counter(), time.process_time()
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        loss.item()
        optimizer.step()
        if step >= options.warmup:
            spent.append(1e3 * (time.process_time() - used))
            taken.append(1e3 * (time.perf_counter() - started))
    print(json.dumps({"cpu_ms": statistics.mean(spent), "ms": statistics.median(taken)}), flush=True)


def measure(options, role):
    words = [sys.executable, __file__, "--role", role]
    for name in ("model", "batch", "steps", "warmup"):
        words += [f"--{name}", str(getattr(options, name))]
    commands = [words] * RANKS
    if not role.startswith("alone"):
        commands = [[str(pathlib.Path(options.bin) / "xoe"), "run", "--no-tag-output", "-np", str(RANKS), *words]]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    running = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for command in commands]
    results = []
    for process in running:
        output = process.communicate()[0]
        if process.returncode != 0:
            sys.exit(f"{role} ended with {process.returncode}")
        results += [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    return max(results, key=lambda result: result["cpu_ms"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=4)
    parser.add_argument("--model", choices=MODELS, default="resnet50")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--bin", default="build/release/bin", help="folder of xoe")
    parser.add_argument("--contestants", nargs="+", choices=CONTESTANTS, default=CONTESTANTS)
    parser.add_argument("--role", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.role:
        work(options)
        return
    rounds = []
    for turn in range(options.rounds):
        order = [
            *options.contestants[turn % len(options.contestants) :],
            *options.contestants[: turn % len(options.contestants)],
        ]
        rounds.append({role: measure(options, role) for role in order})
        print(json.dumps(rounds[-1]), flush=True)
    print(f"{'':<16}{'CPU-ms':>8}{'of alone':>10}{'of alone_m':>12}{'ms':>9}")
    for role in options.contestants:
        cost = statistics.median(each[role]["cpu_ms"] for each in rounds)
        line = f"{role:<16}{cost:>8.1f}"
        for control, columns in (("alone", 10), ("alone_m", 12)):
            if control in options.contestants:
                ratio = statistics.median(each[control]["cpu_ms"] / each[role]["cpu_ms"] for each in rounds)
                line += f"{ratio:>{columns}.1%}"
        print(line + f"{statistics.median(each[role]['ms'] for each in rounds):>9.1f}")


if __name__ == "__main__":
    main()
