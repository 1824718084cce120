"""A network, and what its gradients in buckets must be: those of gradients that are reduced one by one."""

import copy
import os
import warnings

import torch

import xoe.torch as hvd
from xoe.torch.first_step import FirstStepWarning

# The buckets of a step of several sizes: several small ones, of several parameters.
os.environ["XOE_BUCKET_BYTES"] = "8K"
hvd.init()
torch.set_num_threads(1)
warnings.simplefilter("ignore", FirstStepWarning)
RANK, SIZE = hvd.rank(), hvd.size()


class Network(torch.nn.Module):
    """Several layers, one of which a step may leave out."""

    def __init__(self, dtype=torch.float32):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3, dtype=dtype)
        self.first = torch.nn.Linear(8 * 36, 30, dtype=dtype)
        self.left = torch.nn.Linear(30, 10, dtype=dtype)
        self.right = torch.nn.Linear(30, 10, dtype=dtype)
        self.scale = torch.nn.Parameter(torch.ones((), dtype=dtype))

    def forward(self, x, order="lr"):
        x = self.first(self.conv(x).relu().flatten(1)) * self.scale
        branches = {"l": self.left, "r": self.right}
        return sum(branches[side](x) for side in order)


class Mixed(Network):
    """Layers of three types."""

    def __init__(self):
        super().__init__()
        self.left.double()
        self.right.bfloat16()

    def forward(self, x, order="lr"):
        x = self.first(self.conv(x).relu().flatten(1)) * self.scale
        return self.left(x.double()).float() + self.right(x.bfloat16()).float()


def network(dtype=torch.float32, seed=0):
    torch.manual_seed(seed)
    return Network(dtype)


def batch(step, dtype=torch.float32, rank=RANK):
    generator = torch.Generator().manual_seed(1000 * step + rank)
    return torch.randn(4, 3, 8, 8, generator=generator).to(dtype)


def loss_of(model, step, order="lr"):
    return model(batch(step, model.scale.dtype), order).float().pow(2).mean()


def sgd(model, **options):
    plain = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    return hvd.DistributedOptimizer(plain, named_parameters=model.named_parameters(), **options)


def one_by_one(model, step, orders=("lr",), passes=1, **options):
    """This step's gradients as ranks reduced them before there were buckets, of a copy of the model."""
    alone = copy.deepcopy(model)
    for p in alone.parameters():
        p.grad = None
    for turn in range(passes):
        loss_of(alone, step * passes + turn, orders[turn % len(orders)]).backward()
    reduced = {}
    for name, p in alone.named_parameters():
        if p.requires_grad:
            grad = torch.zeros_like(p) if p.grad is None else p.grad
            if grad.dim() == 4 and not grad.is_contiguous():
                grad = grad.permute(0, 2, 3, 1)
                reduced[name] = hvd.allreduce(grad, name=f"alone.{name}", **options).permute(0, 3, 1, 2)
            else:
                reduced[name] = hvd.allreduce(grad, name=f"alone.{name}", **options)
    return reduced


def same_bits(model, wanted):
    for name, p in model.named_parameters():
        if name in wanted and p.grad is None:  # no rank has one
            assert not wanted[name].any(), name
        elif name in wanted:
            assert torch.equal(p.grad, wanted[name]), f"{name}: {p.grad.flatten()[:4]} and not {wanted[name].flatten()[:4]}"
            assert p.grad.dtype == wanted[name].dtype and p.grad.shape == wanted[name].shape


def same_parameters(model):
    mine = torch.cat([p.detach().flatten().double() for p in model.parameters()])
    assert torch.equal(hvd.broadcast(mine, 0), mine)


def in_buckets(optimizer):
    return [gradient.name for gradient in optimizer._gradients if gradient.in_bucket]


def in_their_places(optimizer):
    """The gradients that the last step reduced in their buckets."""
    return [gradient.name for gradient in optimizer._gradients if gradient.in_bucket and gradient.param.grad is gradient._view]


def train(model, optimizer, steps=4, first=0, order="lr", set_to_none=True, check=True, **options):
    for step in range(first, first + steps):
        optimizer.zero_grad(set_to_none=set_to_none)
        wanted = one_by_one(model, step, (order,), **options) if check else {}
        loss_of(model, step, order).backward()
        optimizer.step()
        same_bits(model, wanted)
    same_parameters(model)
