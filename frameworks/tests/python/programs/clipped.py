# Clipping after synchronize(), with a gradient scaler and groups of parameters with and without decay.
import torch
from torch import nn

import xoe.torch as hvd

hvd.init()
torch.manual_seed(17)
model = nn.TransformerEncoderLayer(16, 2, dim_feedforward=32, dropout=0.0, batch_first=True, bias=False)
decay = [(n, p) for n, p in model.named_parameters() if p.dim() > 1]
rest = [(n, p) for n, p in model.named_parameters() if p.dim() <= 1]
optimizer = torch.optim.AdamW(
    [
        {"params": [p for _, p in decay], "weight_decay": 0.1},
        {"params": [p for _, p in rest], "weight_decay": 0.0},
    ],
    lr=1e-3,
)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=decay + rest)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)

x = torch.randn(144, 5, 16)
losses = []
for step in range(6):
    rows = x[step * 24 : (step + 1) * 24][hvd.rank() :: hvd.size()]
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(rows), rows.roll(1, dims=1))
    scaler.scale(loss).backward()
    optimizer.synchronize()
    scaler.unscale_(optimizer)
    norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    nn.utils.clip_grad_value_(model.parameters(), 0.1)
    with optimizer.skip_synchronize():
        scaler.step(optimizer)
    scaler.update()
    losses += [hvd.allreduce(loss.detach()).item(), norm.item()]
