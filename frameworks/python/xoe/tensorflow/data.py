"""The input pipeline as a ``tf.data.Dataset``."""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike
from typing import Any

import numpy as np
import tensorflow as tf

from xoe._image_epochs import ImageEpochs, classes_of
from xoe.errors import UnsupportedError


def image_dataset(directory: str | bytes | PathLike[str], batch: int = 32, **options: Any) -> Any:
    """Batches of images and labels (of targets, where images have several classes); an epoch each time it is iterated over::

        dataset = image_dataset("images/", batch=32, image_size=224, training=True).prefetch(1)
        model.fit(dataset, epochs=90)

    Each rank reads its shard. Layout is channels last unless options say otherwise; options are those of
    :class:`xoe.data.Images`. A batch is copied once into TensorFlow's memory. It has as many batches as ``cardinality()``
    tells.
    """
    options = {"layout": "nhwc", **options}
    if options.get("dtype") == "bfloat16":
        raise UnsupportedError("bfloat16 images cannot pass to tf.data; take float16, or float32 and tf.cast")
    epochs = ImageEpochs(directory, batch, **options)

    def batches() -> Iterator[tuple[Any, Any]]:
        for one in epochs._epoch():
            yield np.from_dlpack(one.pixels), np.from_dlpack(classes_of(one))

    first = epochs.peek()
    specs = tuple(_spec(np.from_dlpack(part)) for part in (first.pixels, classes_of(first)))
    dataset = tf.data.Dataset.from_generator(batches, output_signature=specs)
    return dataset.apply(tf.data.experimental.assert_cardinality(len(epochs)))


def _spec(array: np.ndarray[Any, Any]) -> Any:
    """Batches may differ in their number of images."""
    return tf.TensorSpec((None, *array.shape[1:]), array.dtype)
