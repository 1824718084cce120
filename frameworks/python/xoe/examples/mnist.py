"""Handwritten digits on several ranks:

    xoe run -np 2 python -m xoe.examples.mnist [--data FOLDER]

FOLDER holds MNIST's four unpacked idx files; without it, this program draws digits itself, and downloads nothing. A rank
trains on its GPU if it has been given one, else on the CPU.
"""

from __future__ import annotations

import argparse
import struct
import time
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, DistributedSampler, Subset, TensorDataset

import xoe.torch as hvd

# Each digit in one stroke, over points of a grid of 3 columns and 5 rows: column, row, column, row, ...
STROKES = "0020240400 011014 002022020424 00202202222404 0002222024 200002222404 200004242202 002014 02002024040222 2202002024"


def read_idx(path: Path) -> Tensor:
    data = bytearray(path.read_bytes())
    shape = struct.unpack_from(f">{data[3]}I", data, 4)
    return torch.frombuffer(data, dtype=torch.uint8, offset=4 + 4 * len(shape)).reshape(shape)


def load(folder: str, kind: str) -> TensorDataset:
    images, labels = (read_idx(Path(folder) / f"{kind}-{name}-ubyte") for name in ("images-idx3", "labels-idx1"))
    return TensorDataset(images[:, None] / 255.0, labels.long())


def uniform(count: int, low: float, high: float) -> Tensor:
    return torch.empty(count, 1).uniform_(low, high)


def draw(count: int, seed: int) -> TensorDataset:
    """Digits of 28 x 28 pixels, each bent, turned, scaled, shifted, thick or thin in its own way, and noisy."""
    torch.manual_seed(seed)
    images, labels = torch.empty(count, 28 * 28), torch.arange(count) % 10
    x = torch.arange(28) - 13.5
    pixels = torch.complex(x.repeat(28), x.repeat_interleave(28))[:, None]
    for digit, stroke in enumerate(STROKES.split()):
        chosen = labels == digit
        n = int(chosen.sum())
        column, row = (4.5 * torch.tensor([int(c) - 1 - k for c in stroke[k::2]]) for k in (0, 1))
        points = torch.complex(column, row) * torch.polar(uniform(n, 0.8, 1.15), uniform(n, -0.3, 0.3))
        points += torch.complex(uniform(n, -3, 3), uniform(n, -3, 3))
        points += 0.7 * torch.randn(points.shape, dtype=points.dtype)
        start, line = points[:, None, :-1], points.diff()[:, None]
        nearest = start + line * ((pixels - start) / line).real.clamp(0, 1)
        images[chosen] = (uniform(n, 1.2, 2.2) - (nearest - pixels).abs().amin(-1)).clamp(0, 1)
    images += 0.15 * torch.randn(images.shape)
    return TensorDataset(images.reshape(-1, 1, 28, 28), labels)


def choose_device() -> torch.device:
    """The GPU of this rank; the CPU where it has none."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    device = torch.device("cuda", hvd.local_rank() % torch.cuda.device_count())
    torch.cuda.set_device(device)
    return device


def accuracy_of(model: nn.Module, data: Dataset[tuple[Tensor, ...]], size: int, device: torch.device) -> float:
    """Each rank looks at a part; the counts are added up over all ranks."""
    model.eval()
    counts = torch.zeros(2)
    with torch.no_grad():
        for images, labels in DataLoader(Subset(data, range(hvd.rank(), size, hvd.size())), batch_size=500):
            counts += torch.tensor([(model(images.to(device)).argmax(1).cpu() == labels).sum(), len(labels)])
    right, seen = hvd.allreduce(counts, op=hvd.Sum, name="accuracy")
    return float(right / seen)


def main() -> None:
    parser = argparse.ArgumentParser(description="Learns to read digits, on several ranks: MNIST's, or some that it draws.")
    parser.add_argument("--data", metavar="FOLDER", help="MNIST's idx files; without it, digits are drawn")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--lr", type=float, default=0.02, help="for one rank; multiplied by their number")
    parser.add_argument("--target", type=float, default=0.0, help="fail below this accuracy")
    args = parser.parse_args()

    hvd.init()
    device = choose_device()
    started = time.monotonic()
    train, test = (load(args.data, kind) for kind in ("train", "t10k")) if args.data else (draw(6000, 1), draw(2000, 2))
    if hvd.rank() == 0:
        digits = f"digits of {args.data}" if args.data else "digits drawn here (not MNIST)"
        print(f"{digits}: {len(train)} to learn from, {len(test)} to test with; ranks: {hvd.size()}, {device.type}", flush=True)
    sampler: DistributedSampler[tuple[Tensor, ...]] = DistributedSampler(train, num_replicas=hvd.size(), rank=hvd.rank())
    loader = DataLoader(train, batch_size=32, sampler=sampler)

    model = nn.Sequential(
        *(nn.Conv2d(1, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 5), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(512, 64), nn.ReLU(), nn.Linear(64, 10)),
    ).to(device)
    sgd = torch.optim.SGD(model.parameters(), lr=args.lr * hvd.size(), momentum=0.9)
    optimizer = hvd.DistributedOptimizer(sgd, named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)

    accuracy = 0.0
    for epoch in range(args.epochs):
        model.train()
        sampler.set_epoch(epoch)
        for images, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images.to(device)), labels.to(device))
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        accuracy = accuracy_of(model, test, len(test), device)
        if hvd.rank() == 0:
            seconds = time.monotonic() - started
            print(f"epoch {epoch + 1}: loss {loss.item():.3f}, accuracy {accuracy:.2%}, after {seconds:.1f} s", flush=True)
    if accuracy < args.target:
        raise SystemExit(f"accuracy {accuracy:.4f} is below --target {args.target}")


if __name__ == "__main__":
    main()
