"""A small GPT on several ranks, with accumulated and clipped gradients:

    xoe run -np 2 python examples/pytorch/gpt.py [--steps 200]

The model learns to count: each sequence starts at a random number and goes up by a random stride, which the model has
to infer.
"""

import argparse

import torch
import xoe.torch as hvd
from torch import nn

VOCABULARY, LENGTH, STRIDES = 31, 24, 8


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        batch, length, width = x.shape
        qkv = self.qkv(self.before_attention(x)).reshape(batch, length, 3, self.heads, -1)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.before_mlp(x))


class GPT(nn.Module):
    def __init__(self, width, heads, layers):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, width), nn.Embedding(LENGTH, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, VOCABULARY, bias=False)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        return self.head(self.norm(self.blocks(x)))


def sequences(count, rng):
    start = torch.randint(VOCABULARY, (count, 1), generator=rng)
    stride = torch.randint(1, 1 + STRIDES, (count, 1), generator=rng)
    return (start + stride * torch.arange(LENGTH + 1)) % VOCABULARY


parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=200)
parser.add_argument("--batch", type=int, default=16, help="sequences of a rank in one backward pass")
parser.add_argument("--passes", type=int, default=2, help="backward passes that add up to one step")
parser.add_argument("--width", type=int, default=64)
parser.add_argument("--layers", type=int, default=2)
parser.add_argument("--lr", type=float, default=3e-3)
parser.add_argument("--clip", type=float, default=0.25, help="maximum norm of all gradients together")
args = parser.parse_args()

hvd.init()
rng = torch.Generator().manual_seed(hvd.rank())  # each rank draws its own sequences
model = GPT(args.width, heads=4, layers=args.layers)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
optimizer = hvd.DistributedOptimizer(
    torch.optim.AdamW(model.parameters(), lr=args.lr),
    named_parameters=model.named_parameters(),
    backward_passes_per_step=args.passes,
)

for step in range(args.steps):
    optimizer.zero_grad()
    total = 0.0
    for _ in range(args.passes):
        tokens = sequences(args.batch, rng)
        predicted, wanted = model(tokens[:, :-1])[:, 1:], tokens[:, 2:]  # two numbers determine the stride
        loss = nn.functional.cross_entropy(predicted.flatten(0, 1), wanted.flatten()) / args.passes
        loss.backward()  # the last pass reduces gradients while it is running
        total += loss.item()
    optimizer.synchronize()  # now the gradients are averages over all ranks, and can be clipped
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)
    with optimizer.skip_synchronize():
        optimizer.step()
    if step % 10 == 0 or step == args.steps - 1:
        mean = hvd.allreduce(torch.tensor(total), name="loss").item()
        if hvd.rank() == 0:
            print(f"step {step}: loss {mean:.4f}, gradient norm {norm:.3f}", flush=True)
