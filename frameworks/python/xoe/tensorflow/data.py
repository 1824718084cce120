"""The input pipeline as a ``tf.data.Dataset``."""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike
from typing import Any

import numpy as np
import tensorflow as tf

from xoe._image_epochs import ImageEpochs, classes_of
from xoe.errors import UnsupportedError
from xoe.ledger import Ledger


class ImageDataset(ImageEpochs):
    """Batches of images and labels for elastic training, whose state holds it::

        images = ImageDataset("images/", batch=32, image_size=224, remainder="keep", ledger=ledger)
        state = hvd.elastic.TensorFlowState(variables, images=images, ledger=ledger)

        while state.images.epoch < 90:
            for pixels, labels in state.images.dataset().prefetch(1):
                ...
                state.images.record_batch()
                state.commit()

    Options are those of :func:`image_dataset`.
    """

    _reads_ahead = True

    def __init__(
        self, directory: str | bytes | PathLike[str], batch: int = 32, *, ledger: Ledger | None = None, **options: Any
    ) -> None:
        options = {"layout": "nhwc", **options}
        if options.get("dtype") == "bfloat16":
            raise UnsupportedError("bfloat16 images cannot pass to tf.data; take float16, or float32 and tf.cast")
        super().__init__(directory, batch, ledger=ledger, **options)
        first = self.peek()
        self._specs = tuple(_spec(np.from_dlpack(part)) for part in (first.pixels, classes_of(first)))

    def dataset(self) -> Any:
        """What the epoch under way has left, or the next epoch, as a ``tf.data.Dataset`` to be iterated over once. A data set
        that was made before ends."""
        return self._dataset(self._batches_left())

    def _dataset(self, count: int) -> Any:
        def batches() -> Iterator[tuple[Any, Any]]:
            for one in self._epoch():
                yield np.from_dlpack(one.pixels), np.from_dlpack(classes_of(one))

        dataset = tf.data.Dataset.from_generator(batches, output_signature=self._specs)
        return dataset.apply(tf.data.experimental.assert_cardinality(count))


def image_dataset(directory: str | bytes | PathLike[str], batch: int = 32, **options: Any) -> Any:
    """Batches of images and labels (of targets, where images have several classes); an epoch each time it is iterated over::

        dataset = image_dataset("images/", batch=32, image_size=224, training=True).prefetch(1)
        model.fit(dataset, epochs=90)

    Each rank reads its shard. Layout is channels last unless options say otherwise; options are those of
    :class:`xoe.data.Images`. A batch is copied once into TensorFlow's memory. It has as many batches as ``cardinality()``
    tells.
    """
    images = ImageDataset(directory, batch, **options)
    return images._dataset(len(images))


def _spec(array: np.ndarray[Any, Any]) -> Any:
    """Batches may differ in their number of images."""
    return tf.TensorSpec((None, *array.shape[1:]), array.dtype)
