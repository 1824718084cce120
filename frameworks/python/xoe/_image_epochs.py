"""An epoch of images for each loop: what the data sets of all frameworks have in common."""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike
from typing import Any

from xoe.data import Batch, Images


class ImageEpochs:
    """Options are those of :class:`xoe.data.Images`."""

    def __init__(self, directory: str | bytes | PathLike[str], batch: int = 32, **options: Any) -> None:
        self._images = Images(directory, batch, **options)
        self._batches: int = self._images.batches_per_epoch
        self._left_in: int | None = None  # the epoch in which the last loop ended early
        self._batch: Batch | None = None

    def _epoch(self) -> Iterator[Batch]:
        """The batches of the next epoch; of the rest of one, after ``load_state_dict``."""
        if self._left_in is not None:
            self._images.start_epoch(self._left_in + 1)
            self._left_in = None
        for batch in self._images:
            self._left_in = batch.epoch if batch.left else None
            self._batch = batch
            yield batch
            if batch.left == 0:
                return

    def peek(self) -> Batch:
        """The first batch of the epoch that comes next, which then begins again."""
        batch = next(self._epoch())
        self._images.start_epoch(batch.epoch)
        self._left_in = None
        return batch

    def __len__(self) -> int:
        """Batches of this rank in a whole epoch; the same on every rank."""
        return self._batches

    @property
    def images(self) -> Images:
        """The pipeline itself, with its facts and its report of where time went."""
        return self._images

    @property
    def batch(self) -> Batch | None:
        """The batch that came last, which knows the files and records of its images (``batch.origins``)."""
        return self._batch

    def state_dict(self) -> dict[str, Any]:
        """The position after the last batch."""
        return {"position": self._images.save()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The next loop continues from a position."""
        self._images.restore(state["position"])
        self._left_in = None


def classes_of(batch: Batch) -> Any:
    """Labels, or targets where images have several classes."""
    classes = batch.labels if batch.targets is None else batch.targets
    assert classes is not None
    return classes
