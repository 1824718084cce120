"""Handwritten digits as NumPy arrays: MNIST's from its idx files, or some that are drawn here, so that nothing is
downloaded."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np

# Each digit in one stroke, over points of a grid of 3 columns and 5 rows: column, row, column, row, ...
STROKES = "0020240400 011014 002022020424 00202202222404 0002222024 200002222404 200004242202 002014 02002024040222 2202002024"


def load(folder: str | None = None) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """Images [count, 28, 28, 1] within 0 to 1 and labels, to learn from and to test with. folder: of MNIST's unpacked idx
    files."""
    if folder is None:
        return draw(6000, 1), draw(2000, 2)
    return _files(folder, "train"), _files(folder, "t10k")


def _files(folder: str, kind: str) -> tuple[Any, Any]:
    images, labels = (_idx(Path(folder) / f"{kind}-{name}-ubyte") for name in ("images-idx3", "labels-idx1"))
    return images[..., None].astype("float32") / 255, labels.astype("int32")


def _idx(path: Path) -> Any:
    data = path.read_bytes()
    shape = struct.unpack_from(f">{data[3]}I", data, 4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * len(shape)).reshape(shape)


def draw(count: int, seed: int) -> tuple[Any, Any]:
    """Digits, each bent, turned, scaled, shifted, thick or thin in its own way, and noisy."""
    generator = np.random.default_rng(seed)
    images, labels = np.empty((count, 28 * 28), "float32"), (np.arange(count) % 10).astype("int32")
    x = np.arange(28) - 13.5
    pixels = (np.tile(x, 28) + 1j * np.repeat(x, 28))[:, None]
    for digit, stroke in enumerate(STROKES.split()):
        chosen = labels == digit
        n = int(chosen.sum())
        column, row = (4.5 * np.array([int(c) - 1 - k for c in stroke[k::2]]) for k in (0, 1))
        turned = generator.uniform(0.8, 1.15, (n, 1)) * np.exp(1j * generator.uniform(-0.3, 0.3, (n, 1)))
        shifted = generator.uniform(-3, 3, (n, 1)) + 1j * generator.uniform(-3, 3, (n, 1))
        points = (column + 1j * row) * turned + shifted
        points += 0.5 * (generator.normal(size=points.shape) + 1j * generator.normal(size=points.shape))
        start, line = points[:, None, :-1], np.diff(points)[:, None]
        nearest = start + line * np.clip(((pixels - start) / line).real, 0, 1)
        images[chosen] = np.clip(generator.uniform(1.2, 2.2, (n, 1)) - np.abs(nearest - pixels).min(-1), 0, 1)
    images += 0.15 * generator.normal(size=images.shape)
    return images.reshape(-1, 28, 28, 1), labels
