"""What a program has before it uses Xoe; a block of a document takes the place of the last line."""

import torch
import xoe.torch as hvd

model = torch.nn.Linear(4, 2)
data = torch.utils.data.TensorDataset(torch.rand(64, 4), torch.zeros(64, dtype=torch.long))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
tensor = torch.ones(3)
BLOCK
