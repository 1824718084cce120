# Gradual unfreezing: the head first, then layer after layer with add_param_group and a rate of its own.
import torch
import torch.nn as nn

import xoe.torch as hvd

hvd.init()
torch.manual_seed(2)
backbone = nn.ModuleList([nn.Linear(10, 16), nn.Linear(16, 16), nn.Linear(16, 16)])
head = nn.Linear(16, 4)
for p in backbone.parameters():
    p.requires_grad = False
model = nn.ModuleDict({"backbone": backbone, "head": head})
hvd.broadcast_parameters(model.state_dict(), root_rank=0)


def forward(x):
    for layer in backbone:
        x = torch.relu(layer(x))
    return head(x)


optimizer = torch.optim.SGD(head.parameters(), lr=0.1, momentum=0.9)
scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=head.named_parameters())

x, y = torch.randn(240, 10), torch.randint(0, 4, (240,))
losses, step = [], 0
for phase in range(4):
    if phase > 0:
        layer = backbone[-phase]
        for p in layer.parameters():
            p.requires_grad = True
        optimizer.add_param_group({"params": layer.parameters(), "lr": 0.1 / 2**phase, "initial_lr": 0.1 / 2**phase})
        scheduler.base_lrs.append(0.1 / 2**phase)
        hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    for _ in range(2):
        rows = torch.arange(step * 24, (step + 1) * 24)[hvd.rank() :: hvd.size()]
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(forward(x[rows]), y[rows])
        loss.backward()
        optimizer.step()
        losses.append(hvd.allreduce(loss.detach()).item())
        step += 1
    scheduler.step()
