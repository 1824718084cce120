"""The input pipeline as a ``keras.utils.PyDataset``, for ``fit`` on every backend."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from os import PathLike
from typing import Any

import keras
import numpy as np

from xoe._image_epochs import ImageEpochs, classes_of
from xoe.data import Batch
from xoe.ledger import Ledger


class ImageDataset(ImageEpochs, keras.utils.PyDataset):
    """Batches of images and labels (of targets, where images have several classes)::

        model.fit(ImageDataset("images/", batch=32, image_size=224, training=True), epochs=90)

    Each rank reads its shard, in the order of the pipeline: the index by which Keras asks counts no more than that. Layout
    is Keras's ``image_data_format`` unless options say otherwise; options are those of :class:`xoe.data.Images`.

    In a :class:`xoe.keras.elastic.KerasState` the place in the data is part of the state, and its length is the number of
    batches that the epoch has left: see there. Batches that Keras reads before the training, to build a model, come again.
    """

    _reads_ahead = True

    def __init__(
        self, directory: str | bytes | PathLike[str], batch: int = 32, *, ledger: Ledger | None = None, **options: Any
    ) -> None:
        keras.utils.PyDataset.__init__(self, workers=1, use_multiprocessing=False)
        layout = "nchw" if keras.config.image_data_format() == "channels_first" else "nhwc"
        ImageEpochs.__init__(self, directory, batch, ledger=ledger, **{"layout": layout, **options})
        self._lock = threading.Lock()
        self._running: Iterator[Batch] | None = None

    def __len__(self) -> int:
        return self._batches_left() if self._elastic else super().__len__()

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        with self._lock:
            if index == 0 and self._elastic:
                self._running = self._epoch()
            batch = self._next()
        return np.from_dlpack(batch.pixels), np.from_dlpack(classes_of(batch))

    def _next(self) -> Batch:
        if self._running is None:
            self._running = self._epoch()
        batch = next(self._running, None)
        if batch is None:  # an epoch has ended
            self._running = self._epoch()
            batch = next(self._running)
        return batch
