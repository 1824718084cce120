"""Warm-up, then cosine, then a drop when the validation loss no longer improves; made from the distributed optimizer."""

import torch
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, ReduceLROnPlateau, SequentialLR

import xoe.torch as xoe


def metric_average(value, name):
    return xoe.allreduce(torch.tensor(value), name=name).item()


xoe.init()
rank, size = xoe.rank(), xoe.size()
generator = torch.Generator().manual_seed(3)
inputs, noise = torch.randn(144, 6, generator=generator), torch.randn(144, 1, generator=generator)
targets = inputs.prod(dim=1, keepdim=True) + 0.1 * noise

torch.manual_seed(rank)  # differs on purpose: the broadcast repairs it
if rank == 0:
    torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 32), nn.GELU(), nn.Linear(32, 1))
xoe.broadcast_parameters(model.state_dict(), root_rank=0)

optimizer = torch.optim.AdamW(model.parameters(), lr=0.02, weight_decay=0.01)
optimizer = xoe.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
warmup = LinearLR(optimizer, start_factor=0.1, total_iters=4)
cosine = CosineAnnealingLR(optimizer, T_max=14)
scheduler = SequentialLR(optimizer, [warmup, cosine], milestones=[4])
plateau = ReduceLROnPlateau(optimizer, patience=1, factor=0.5)

losses = []
for epoch in range(3):
    for start in range(0, 120, 24):
        rows = slice(start + rank * (24 // size), start + (rank + 1) * (24 // size))
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs[rows]), targets[rows])
        loss.backward()
        optimizer.step()
        scheduler.step()
    with torch.no_grad():
        held_out = slice(120 + rank * (24 // size), 120 + (rank + 1) * (24 // size))
        validation = nn.functional.mse_loss(model(inputs[held_out]), targets[held_out]).item()
    losses.append(metric_average(validation, "validation"))
    plateau.step(losses[-1])
    losses.append(scheduler.get_last_lr()[0])
