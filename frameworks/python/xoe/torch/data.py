"""The input pipeline as a PyTorch data set."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from os import PathLike
from typing import Any

import torch
import torch.utils.data
import torch.utils.dlpack

from xoe._image_epochs import ImageEpochs, classes_of
from xoe.data import Batch, Images, _options_of
from xoe.ledger import Ledger


class ImageDataset(ImageEpochs, torch.utils.data.IterableDataset[tuple[torch.Tensor, torch.Tensor]]):
    """Batches of images and labels (of targets, where images have several classes), one epoch each time it is iterated over::

        dataset = ImageDataset("images/", batch=32, image_size=224, training=True)
        for epoch in range(90):
            for images, labels in dataset:
                ...

    A loop that was left early is over: the next one begins the next epoch. Tensors use the pipeline's memory without a copy.
    The pipeline has threads of its own: a ``DataLoader`` is not needed, and must have ``batch_size=None, num_workers=0``.
    ``state_dict`` holds the position within the epoch; after ``load_state_dict`` the next loop goes on from there to the
    epoch's end, bit-identically, also with another number of ranks or another batch. It raises InvalidArgumentError where the
    names, sizes or numbers of records of the files have changed, or the seed or the kind of order. Options are those of
    :class:`xoe.data.Images`, compare too.

    In a :class:`xoe.torch.elastic.TorchState` the place in the data is part of the state, and after a change of the ranks the
    rest of the epoch is shared out among them; a loop that was left early goes on where it was then. ledger: a
    :class:`xoe.ledger.Ledger`, which :meth:`record_batch` tells of each step::

        while state.images.epoch < EPOCHS:
            for images, labels in state.images:
                ...
                state.images.record_batch()
                state.commit()
    """

    __doc__ = f"{inspect.cleandoc(__doc__ or '')}\n\n{_options_of(Images.__doc__)}"

    def __init__(
        self, directory: str | bytes | PathLike[str], batch: int = 32, *, ledger: Ledger | None = None, **options: Any
    ) -> None:
        torch.utils.data.IterableDataset.__init__(self)
        ImageEpochs.__init__(self, directory, batch, ledger=ledger, **options)

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        worker = torch.utils.data.get_worker_info()
        if worker is not None:
            raise RuntimeError("the pipeline has threads of its own: use DataLoader(dataset, batch_size=None, num_workers=0)")
        yield from map(tensors_of, self._epoch())


def tensors_of(batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
    """Pixels, and labels or targets, of a batch, without a copy."""
    return torch.utils.dlpack.from_dlpack(batch.pixels), torch.utils.dlpack.from_dlpack(classes_of(batch))
