"""One process of a contestant of frameworks/bench/python/run.py: trains a network on one random batch, and prints a JSON line:
{"step_ms", "cpu_ms", "loss"}: the median step, the processor time of one (the mean: page faults come in bursts), and the last loss.

Modes: alone (PyTorch, knows no other process, and nothing of Xoe); optimizer and sharded (xoe.torch.DistributedOptimizer); xoe, gloo, nccl
(DistributedDataParallel on that backend); hook (on xoe, with Xoe's communication hook). The loop and the work are the same in all of them:
gradients are reduced, and nothing else, so DistributedDataParallel does not broadcast buffers before each step as it does by default
(batch normalisation has them). With --keep glibc keeps what a step frees, as Xoe tells it to: that saves page faults in any program. On
"cuda" each rank has the GPU of its local rank.
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

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "train/bench/training"))
from keep import keep_freed_memory
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
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        return self.head(self.blocks(x)).flatten(0, 1)


def resnet50(batch, image_size):
    images = torch.randn(batch, 3, image_size, image_size).contiguous(memory_format=torch.channels_last)
    return ResNet50().to(memory_format=torch.channels_last), images, torch.randint(1000, (batch,))


def gpt(batch, _):
    return Gpt(), torch.randint(512, (batch, 64)), torch.randint(512, (batch * 64,))


MODELS = {"resnet50": (resnet50, "sgd"), "gpt": (gpt, "adamw")}


def plain_optimizer(kind, model):
    if kind == "adamw":
        return torch.optim.AdamW(model.parameters(), lr=1e-4)
    return torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9, weight_decay=5e-5)


def prepare(mode, kind, model):
    """The model and the optimizer of a mode."""
    if mode == "alone":
        return model, plain_optimizer(kind, model)
    if mode in ("meet", "optimizer", "sharded"):
        import xoe.torch as hvd

        hvd.init()
        if mode == "meet":
            plain = plain_optimizer(kind, model)
            plain.register_step_pre_hook(lambda *_: hvd.barrier())
            return model, plain
        hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        plain, named = plain_optimizer(kind, model), model.named_parameters()
        return model, hvd.DistributedOptimizer(plain, named_parameters=named, sharded=mode == "sharded")
    if mode in ("xoe", "hook"):
        import xoe.torch.distributed as backend
    torch.distributed.init_process_group("xoe" if mode == "hook" else mode)
    wrapped = nn.parallel.DistributedDataParallel(model, broadcast_buffers=False, gradient_as_bucket_view=True)
    if mode == "hook":
        wrapped.register_comm_hook(None, backend.allreduce_hook)
    return wrapped, plain_optimizer(kind, wrapped)


def timed_step(model, optimizer, inputs, labels, precision):
    """Seconds that one step takes, by the clock and of the processors, and its loss."""
    started, used = time.perf_counter(), time.process_time()
    optimizer.zero_grad()
    with precision:
        loss = functional.cross_entropy(model(inputs), labels)
    loss.backward()
    optimizer.step()
    if inputs.is_cuda:
        torch.cuda.synchronize()
    value = loss.item()
    return time.perf_counter() - started, time.process_time() - used, value


def device_of(kind):
    """This rank's device."""
    torch.set_num_threads(1)
    if kind == "cpu":
        return torch.device("cpu")
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
    torch.cuda.set_device(device)
    return device


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mode", choices=("alone", "meet", "optimizer", "sharded", "xoe", "hook", "gloo", "nccl"))
    parser.add_argument("--model", choices=MODELS, required=True)
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--image-size", type=int, default=64)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=4)
    options = parser.parse_args()
    if options.keep:
        keep_freed_memory()

    device = device_of(options.device)
    precision = torch.autocast(device.type, torch.bfloat16, enabled=options.precision == "bf16")
    torch.manual_seed(1)
    make, kind = MODELS[options.model]
    model, inputs, labels = (one.to(device) for one in make(options.batch, options.image_size))
    model, optimizer = prepare(options.mode, kind, model)
    steps = [timed_step(model, optimizer, inputs, labels, precision) for _ in range(options.warmup + options.steps)][
        options.warmup :
    ]
    seconds, processor, losses = zip(*steps, strict=True)
    figures = {"step_ms": 1e3 * statistics.median(seconds), "cpu_ms": 1e3 * statistics.mean(processor), "loss": losses[-1]}
    print(json.dumps(figures), flush=True)
    if options.mode in ("xoe", "hook", "gloo", "nccl"):
        with contextlib.suppress(RuntimeError):
            torch.distributed.destroy_process_group()


main()
