"""A program with logical shards; a block of a document takes the place of the line below."""

import torch
from torch.nn import functional

import xoe.torch as hvd

hvd.init()
torch.set_num_threads(1)
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
images, labels, steps = torch.randn(50, 4), torch.randint(3, (50,)), 3
BLOCK
weights = [value.tolist() for value in model.state_dict().values()]
assert all(other == weights for other in hvd.allgather_object(weights))
