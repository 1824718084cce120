# Parametrized layers (weight norm, orthogonal, a parametrization of one's own) and a complex-valued filter.
import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize

import xoe.torch as hvd


class Symmetric(nn.Module):
    def forward(self, w):
        return w.triu() + w.triu(1).mT


class Filter(nn.Module):
    def __init__(self, length):
        super().__init__()
        self.response = nn.Parameter(torch.view_as_complex(torch.randn(length // 2 + 1, 2)))

    def forward(self, x):
        return torch.fft.irfft(torch.fft.rfft(x) * self.response, n=x.shape[-1])


hvd.init()
torch.manual_seed(41)
symmetric = nn.Linear(8, 8, bias=False)
parametrize.register_parametrization(symmetric, "weight", Symmetric())
model = nn.Sequential(
    parametrizations.weight_norm(nn.Linear(8, 8)),
    nn.Tanh(),
    symmetric,
    Filter(8),
    parametrizations.orthogonal(nn.Linear(8, 8), orthogonal_map="cayley"),
)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.5)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
x = torch.randn(120, 8)
losses = []
for step in range(5):
    rows = x[step * 24 : (step + 1) * 24][hvd.rank() :: hvd.size()]
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(rows), rows.cumsum(1))
    loss.backward()
    optimizer.step()
    losses.append(hvd.allreduce(loss.detach()).item())
