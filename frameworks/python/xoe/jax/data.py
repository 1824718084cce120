"""The input pipeline as arrays of JAX."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import jax.numpy as jnp

from xoe._image_epochs import ImageEpochs, classes_of
from xoe.data import Images, _options_of


class ImageDataset(ImageEpochs):
    """Batches of images and labels (of targets, where images have several classes), one epoch each time it is iterated over::

        dataset = ImageDataset("images/", batch=32, image_size=224, layout="nhwc", training=True)
        for epoch in range(90):
            for images, labels in dataset:
                ...

    Arrays use the pipeline's memory without a copy where JAX takes it. ``state_dict``, ``load_state_dict``, ``ledger`` and the
    place in an elastic state (:class:`xoe.jax.elastic.JaxState`) as in :class:`xoe.torch.data.ImageDataset`; options are those
    of :class:`xoe.data.Images`, compare too.
    """

    __doc__ = f"{inspect.cleandoc(__doc__ or '')}\n\n{_options_of(Images.__doc__)}"

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        for batch in self._epoch():
            yield jnp.from_dlpack(batch.pixels), jnp.from_dlpack(classes_of(batch))
