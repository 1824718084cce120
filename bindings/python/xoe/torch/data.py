"""The input pipeline as a PyTorch data set."""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike
from typing import Any

import torch
import torch.utils.data
import torch.utils.dlpack

from xoe.data import Batch, Images


class ImageDataset(torch.utils.data.IterableDataset[tuple[torch.Tensor, torch.Tensor]]):
    """Batches of images and labels (of targets, where images have several classes), one epoch each time it is iterated over::

        dataset = ImageDataset("images/", batch=32, image_size=224, training=True)
        for epoch in range(90):
            for images, labels in dataset:
                ...

    Tensors use the pipeline's memory without a copy. The pipeline has threads of its own: a ``DataLoader`` is not needed, and
    must have ``batch_size=None, num_workers=0``. Options are those of :class:`xoe.data.Images`. ``state_dict`` holds the
    position within the epoch; restored, also on another number of ranks, it continues bit-identically.
    """

    def __init__(self, directory: str | PathLike[str], batch: int = 32, **options: Any) -> None:
        super().__init__()
        self._images = Images(directory, batch, **options)
        self._batches: int = self._images.facts["batches_per_epoch"]

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        worker = torch.utils.data.get_worker_info()
        if worker is not None:
            raise RuntimeError("the pipeline has threads of its own: use DataLoader(dataset, batch_size=None, num_workers=0)")
        for batch in self._images:
            yield tensors_of(batch)
            if batch.index == self._batches - 1:
                return

    def __len__(self) -> int:
        """Batches of this rank in an epoch; the same on every rank."""
        return self._batches

    @property
    def images(self) -> Images:
        """The pipeline itself, with its facts and its report of where time went."""
        return self._images

    def state_dict(self) -> dict[str, Any]:
        """The position after the last batch."""
        return {"position": self._images.save()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues from a position."""
        self._images.restore(state["position"])


def tensors_of(batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
    """Pixels, and labels or targets, of a batch, without a copy."""
    classes = batch.labels if batch.targets is None else batch.targets
    assert classes is not None
    return torch.utils.dlpack.from_dlpack(batch.pixels), torch.utils.dlpack.from_dlpack(classes)
