"""What a program has in the middle of a step; a block of a document takes the place of the line below."""

import torch
import xoe.torch as hvd

hvd.init()
model = torch.nn.Linear(4, 2)
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.01), named_parameters=model.named_parameters())
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
scaler = torch.amp.GradScaler("cpu")
tensor = torch.ones(3)
loss = model(torch.rand(8, 4)).square().mean()
BLOCK
