"""One rank of bench/python/run.py: trains a network on one random batch and prints a JSON line, {"step_ms": ..., "steps_per_s": ...}.

Modes: alone; optimizer (xoe.torch.DistributedOptimizer); xoe, gloo (DistributedDataParallel on that backend); hook (on xoe, with Xoe's
communication hook). The loop is the same in all of them.
"""

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "training"))
from torch_worker import ResNet50


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mix, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.mix(self.norm1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.narrow(functional.gelu(self.wide(self.norm2(x))))


class Gpt(nn.Module):
    """10 M parameters in 76 tensors."""

    def __init__(self, words=512, width=384, depth=6):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(64, width)
        self.blocks = nn.Sequential(*(Block(width, 6) for _ in range(depth)))
        self.head = nn.Linear(width, words)

    def forward(self, tokens):
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1]))
        return self.head(self.blocks(x)).flatten(0, 1)


def resnet50(batch):
    images = torch.randn(batch, 3, 64, 64).contiguous(memory_format=torch.channels_last)
    return ResNet50().to(memory_format=torch.channels_last), images, torch.randint(1000, (batch,))


def gpt(batch):
    return Gpt(), torch.randint(512, (batch, 64)), torch.randint(512, (batch * 64,))


def prepare(mode, model):
    """The model and the optimizer of a mode."""
    make = lambda parameters: torch.optim.SGD(parameters, lr=1e-4, momentum=0.9, weight_decay=5e-5)
    if mode == "alone":
        return model, make(model.parameters())
    if mode == "optimizer":
        import xoe.torch as hvd

        hvd.init()
        hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        return model, hvd.DistributedOptimizer(make(model.parameters()), named_parameters=model.named_parameters())
    if mode in ("xoe", "hook"):
        import xoe.torch.distributed as backend
    torch.distributed.init_process_group("gloo" if mode == "gloo" else "xoe")
    wrapped = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True, broadcast_buffers=False)
    if mode == "hook":
        wrapped.register_comm_hook(None, backend.allreduce_hook)
    return wrapped, make(wrapped.parameters())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mode", choices=("alone", "optimizer", "xoe", "gloo", "hook"))
    parser.add_argument("--model", choices=("resnet50", "gpt"), required=True)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=5)
    options = parser.parse_args()

    torch.set_num_threads(1)
    torch.manual_seed(1)
    model, inputs, labels = {"resnet50": resnet50, "gpt": gpt}[options.model](options.batch)
    model, optimizer = prepare(options.mode, model)
    times = []
    for step in range(options.warmup + options.steps):
        started = time.perf_counter()
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
        loss.item()
        if step >= options.warmup:
            times.append(time.perf_counter() - started)
    if os.environ.get("RANK", os.environ.get("XOE_RANK", "0")) == "0":
        print(json.dumps({"step_ms": 1e3 * statistics.median(times), "steps_per_s": len(times) / sum(times)}), flush=True)
    if options.mode in ("xoe", "gloo", "hook"):
        with contextlib.suppress(RuntimeError):
            torch.distributed.destroy_process_group()


main()
