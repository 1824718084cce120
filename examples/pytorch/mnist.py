"""Handwritten digits with a small convolutional network, on several ranks.

    xoe run -np 2 python examples/pytorch/mnist.py [--data FOLDER]

FOLDER holds MNIST's four idx files, unpacked. Without it the digits are drawn here.
"""

import argparse
import struct
import sys
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Subset, TensorDataset
from torch.utils.data.distributed import DistributedSampler

import xoe.torch as hvd

# Each digit in one stroke, over points of a grid of 3 columns and 5 rows: column, row, column, row, ...
STROKES = "0020240400 01101424040 002022020424 00202202222404 0002222024 200002222404 200004242202 002014 02002024040222 22020020222404"


def read_idx(path):
    data = bytearray(path.read_bytes())
    shape = struct.unpack_from(f">{data[3]}I", data, 4)
    return torch.frombuffer(data, dtype=torch.uint8, offset=4 + 4 * len(shape)).reshape(shape)


def draw(count, seed):
    """Digits of 28 x 28 pixels, each turned, shifted, scaled, thick or thin and noisy in its own way."""
    rng = torch.Generator().manual_seed(seed)
    between = lambda low, high, *shape: low + (high - low) * torch.rand(shape, generator=rng)
    labels = torch.arange(count) % 10
    axis = torch.arange(28) - 13.5
    pixels = torch.stack(torch.meshgrid(axis, axis, indexing="xy"), -1).reshape(-1, 2)
    images = torch.empty(count, 28 * 28)
    for digit, stroke in enumerate(STROKES.split()):
        points = torch.tensor([int(c) for c in stroke[: len(stroke) // 2 * 2]]).reshape(-1, 2) * 4.5 - torch.tensor([4.5, 9.0])
        n = int((labels == digit).sum())
        angle, scale = between(-0.3, 0.3, n), between(0.8, 1.15, n)
        turn = torch.stack([angle.cos(), angle.sin(), -angle.sin(), angle.cos()], -1).reshape(n, 2, 2) * scale[:, None, None]
        points = points @ turn + between(-3, 3, n, 1, 2) + between(-0.8, 0.8, n, *points.shape)
        start, along = points[:, None, :-1], points[:, None, 1:] - points[:, None, :-1]
        # How near each pixel is to the nearest line of the stroke.
        offset = pixels[:, None] - start
        where = ((offset * along).sum(-1) / (along.square().sum(-1) + 1e-6)).clamp(0, 1)
        distance = (offset - where[..., None] * along).norm(dim=-1).amin(-1)
        images[labels == digit] = (between(1.2, 2.2, n, 1) - distance).clamp(0, 1)
    noisy = images + 0.15 * torch.randn(images.shape, generator=rng)
    return TensorDataset(noisy.clamp(0, 1).reshape(-1, 1, 28, 28), labels)


def load(folder, kind):
    images, labels = (read_idx(Path(folder) / f"{kind}-{name}-ubyte") for name in ("images-idx3", "labels-idx1"))
    return TensorDataset(images.unsqueeze(1) / 255.0, labels.long())


def accuracy_of(model, data):
    """Each rank looks at a part; the counts are added up over all ranks."""
    model.eval()
    part = Subset(data, range(hvd.rank(), len(data), hvd.size()))
    counts = torch.zeros(2)
    with torch.no_grad():
        for images, labels in DataLoader(part, batch_size=500):
            counts += torch.tensor([(model(images).argmax(1) == labels).sum(), len(labels)])
    right, seen = hvd.allreduce(counts, op=hvd.Sum, name="accuracy").tolist()
    return right / seen


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--data", metavar="FOLDER", help="MNIST's idx files")
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--batch", type=int, default=32, help="images of a rank in a step")
parser.add_argument("--lr", type=float, default=0.02, help="for one rank; multiplied by their number")
parser.add_argument("--target", type=float, default=0.0, help="fail below this accuracy")
args = parser.parse_args()

hvd.init()
torch.manual_seed(hvd.rank())
train, test = (load(args.data, kind) for kind in ("train", "t10k")) if args.data else (draw(6000, 1), draw(2000, 2))
sampler = DistributedSampler(train, num_replicas=hvd.size(), rank=hvd.rank())
loader = DataLoader(train, batch_size=args.batch, sampler=sampler)

model = nn.Sequential(
    *(nn.Conv2d(1, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 5), nn.ReLU(), nn.MaxPool2d(2)),
    *(nn.Flatten(), nn.Linear(512, 64), nn.ReLU(), nn.Linear(64, 10)),
)
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr * hvd.size(), momentum=0.9)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)

for epoch in range(args.epochs):
    model.train()
    sampler.set_epoch(epoch)
    for images, labels in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
    accuracy = accuracy_of(model, test)
    if hvd.rank() == 0:
        print(f"epoch {epoch + 1}: loss {loss.item():.3f}, accuracy {accuracy:.2%}", flush=True)
if accuracy < args.target:
    sys.exit(f"accuracy {accuracy:.4f} is below --target {args.target}")
