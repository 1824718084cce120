# Batch normalisation over the batches of all ranks, in a network that was written with the ordinary layers.
import torch
from torch import nn

import xoe.torch as hvd


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(channels)

    def forward(self, x):
        return torch.relu(x + self.bn(self.conv(x)))


hvd.init()
torch.manual_seed(23)
model = nn.Sequential(nn.Conv2d(2, 6, 3), Residual(6), Residual(6), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.BatchNorm1d(6))
model = hvd.SyncBatchNorm.convert_sync_batchnorm(model.append(nn.Linear(6, 3)))
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
optimizer = torch.optim.NAdam(model.parameters(), lr=0.01)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
images, labels = torch.randn(120, 2, 8, 8), torch.randint(0, 3, (120,))
losses = []
for step in range(5):
    rows = torch.arange(step * 24, (step + 1) * 24)[hvd.rank() :: hvd.size()]
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(images[rows]), labels[rows])
    loss.backward()
    optimizer.step()
    losses.append(hvd.allreduce(loss.detach()).item())
model.eval()
with torch.no_grad():
    losses += model(images[:4]).flatten().tolist()
