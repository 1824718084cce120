"""Compares several learning rates at once, each on its own process set:

xoe run -np 4 python examples/pytorch/hyperparameters.py --rates 0.003 0.3
"""

import argparse

import torch
import xoe.torch as hvd
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--rates", type=float, nargs="+", default=[0.003, 0.3], help="learning rates to compare")
parser.add_argument("--ranks-per-rate", type=int, default=2)
parser.add_argument("--steps", type=int, default=200)
args = parser.parse_args()

each = args.ranks_per_rate
sets = [hvd.ProcessSet(range(first, first + each)) for first in range(0, each * len(args.rates), each)]
hvd.init(process_sets=sets)
if hvd.size() != each * len(args.rates):
    raise SystemExit(f"{len(args.rates)} rates with {each} ranks each need xoe run -np {each * len(args.rates)}")
number = hvd.rank() // each
rate, mine = args.rates[number], sets[number]


def rings(count, rng):
    """Points of the plane, and in which of three rings around the middle they lie."""
    points = 2 * torch.rand(count, 2, generator=rng) - 1
    return points, (points.norm(dim=1) * 2.5).long().clamp(max=2)


def loss_of(model, points, labels):
    return nn.functional.cross_entropy(model(points), labels)


rng = torch.Generator().manual_seed(mine.rank())  # all sets see the same data, each rank a part of it
torch.manual_seed(1)
model = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 3))
hvd.broadcast_parameters(model.state_dict(), root_rank=mine.ranks[0], process_set=mine)
optimizer = hvd.DistributedOptimizer(
    torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9),
    named_parameters=model.named_parameters(),
    process_set=mine,
)

for _ in range(args.steps):
    optimizer.zero_grad()
    loss_of(model, *rings(64, rng)).backward()
    optimizer.step()

with torch.no_grad():
    loss = loss_of(model, *rings(2000, torch.Generator().manual_seed(99))).item()
results = sorted((loss, rate) for rate, loss in set(hvd.allgather_object((rate, loss))))
if hvd.rank() == 0:
    for loss, rate in results:
        print(f"learning rate {rate:g}: loss {loss:.4f}")
    print(f"best learning rate: {results[0][1]:g}")
