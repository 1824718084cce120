# Activations are computed again in backward, with both forms of torch.utils.checkpoint; the run is saved and resumed halfway.
import os
import tempfile

import horovod.torch as hvd
import torch
from torch.utils.checkpoint import checkpoint, checkpoint_sequential


class Block(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.mlp = torch.nn.Sequential(torch.nn.Linear(width, 2 * width), torch.nn.GELU(), torch.nn.Linear(2 * width, width))

    def forward(self, x):
        return x + self.mlp(self.norm(x))


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inside = torch.nn.Linear(8, 16)
        self.blocks = torch.nn.ModuleList(Block(16) for _ in range(4))
        self.tail = torch.nn.Sequential(Block(16), Block(16), torch.nn.Linear(16, 3))

    def forward(self, x):
        x = self.inside(x)
        for index, block in enumerate(self.blocks):
            x = checkpoint(block, x, use_reentrant=index % 2 == 0)
        return checkpoint_sequential(self.tail, 2, x, use_reentrant=False)


def build():
    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    return model, hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())


def train(model, optimizer, steps):
    for step in steps:
        rows = slice(step * 24 + hvd.rank(), (step + 1) * 24, hvd.size())
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x[rows]), y[rows])
        loss.backward()
        optimizer.step()
        losses.append(hvd.allreduce(loss.detach()).item())


hvd.init()
torch.manual_seed(5)
x, y = torch.randn(192, 8), torch.randint(0, 3, (192,))
losses = []
model, optimizer = build()
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
train(model, optimizer, range(4))

folder = tempfile.TemporaryDirectory()
path = os.path.join(folder.name, "checkpoint.pt")
if hvd.rank() == 0:
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 4}, path)

model, optimizer = build()
step = 0
if hvd.rank() == 0:
    loaded = torch.load(path, weights_only=True)
    model.load_state_dict(loaded["model"])
    optimizer.load_state_dict(loaded["optimizer"])
    step = loaded["step"]
step = hvd.broadcast(torch.tensor(step), root_rank=0, name="step").item()
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)
train(model, optimizer, range(step, 8))
folder.cleanup()
