# A compiled model whose weights a distributed optimizer updates; a reduction between two compiled parts.
import torch
from torch import nn

import xoe.torch as hvd

hvd.init()
torch.manual_seed(8)
model = nn.Sequential(nn.Linear(6, 12), nn.GELU(), nn.Linear(12, 12), nn.GELU(), nn.Linear(12, 2))
compiled = torch.compile(model, backend="aot_eager")
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())


@torch.compile(backend="aot_eager")
def objective(predicted, target):
    loss = nn.functional.mse_loss(predicted, target)
    return loss, hvd.allreduce(loss.detach(), name="loss")  # a graph break


x = torch.randn(96, 6)
y = torch.stack([x[:, 0] * x[:, 1], x[:, 2].sin()], dim=1)
losses = []
for step in range(6):
    rows = torch.arange(96).roll(-16 * step)[:24][hvd.rank() :: hvd.size()]
    optimizer.zero_grad()
    loss, mean = objective(compiled(x[rows]), y[rows])
    loss.backward()
    optimizer.step()
    losses.append(mean.item())
