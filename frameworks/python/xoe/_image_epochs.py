"""An epoch of images for each loop: what the data sets of all frameworks have in common."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from os import PathLike
from typing import Any

from xoe import world as _world
from xoe._recorded_batches import RecordedBatches
from xoe.data import Batch, Images
from xoe.ledger import Ledger


class ImageEpochs(RecordedBatches):
    """Options are those of :class:`xoe.data.Images`. ledger: is told of the records of each batch by :meth:`record_batch`.

    In an elastic state the place in the data is part of that state: it is behind the last batch that :meth:`record_batch` was
    told of. After a change of the ranks the rest of the epoch is shared out among those that there are. One thread may loop
    while another one records; a loop that another one has followed ends.
    """

    def __init__(
        self, directory: str | bytes | PathLike[str], batch: int = 32, *, ledger: Ledger | None = None, **options: Any
    ) -> None:
        self._images = Images(directory, batch, **options)
        self._batches: int = self._images.batches_per_epoch
        self._follows_world = _world.is_initialized() and "rank" not in options and "size" not in options
        position = self._images.save()
        if ledger is not None:
            ledger.describe(self._images.records_per_epoch, _order_of(position))
        super().__init__(ledger, position, _epoch_of(position))
        self._batch: Batch | None = None
        self._pipeline = threading.RLock()  # guards the pipeline, and what follows
        self._loops = 0  # so far
        self._left_in: int | None = None  # the epoch in which the last loop ended early
        self._ahead: deque[tuple[Batch, str]] = deque()  # read, and not handed out
        self._moved = False  # whether the ranks are others than those that the images are shared among

    def _epoch(self) -> Iterator[Batch]:
        """The batches of the next epoch; of the rest of one, after ``load_state_dict`` and in an elastic state."""
        with self._pipeline:
            self._loops += 1
            loop = self._loops
            self._begin_loop()
        left = 1
        while left > 0:
            with self._pipeline:
                # A thread that reads ahead for a loop that is over takes no batch from the next one.
                batch = self._take() if loop == self._loops else None
            if batch is None:
                return
            left = batch.left
            yield batch

    def _begin_loop(self) -> None:
        if self._moved or self._unrecorded() is not None:
            # Batches that no step was done with come again.
            loops, (place, epoch) = self._loops, (self._place, self._next_epoch)
            self.load_state_dict({"position": place, "epoch": epoch})
            self._loops = loops
        elif self._left_in is not None and not self._elastic:
            self._images.start_epoch(self._left_in + 1)
            self._ahead.clear()
        self._left_in = None

    def _read(self) -> tuple[Batch, str] | None:
        batch = next(self._images, None)
        return None if batch is None else (batch, self._images.save())

    def _take(self) -> Batch | None:
        taken = self._ahead.popleft() if self._ahead else self._read()
        if taken is None:
            return None
        batch, position = taken
        self._left_in = batch.epoch if batch.left else None
        self._batch = batch
        records = batch.records.tolist() if self._elastic or self._ledger is not None else []
        self._hand_out(records, batch.epoch, batch.left, position)
        return batch

    def _look(self) -> Batch | None:
        """The batch that comes next; None at the end of all epochs."""
        if not self._ahead:
            read = self._read()
            if read is None:
                return None
            self._ahead.append(read)
        return self._ahead[0][0]

    def _batches_left(self) -> int:
        """Of the epoch that the next loop goes on with, in an elastic state."""
        with self._pipeline:
            if self._moved:
                self._begin_loop()
            first = self._unrecorded() or self._look()
            return 0 if first is None else first.left + 1

    def peek(self) -> Batch:
        """The first batch that the next loop has, which stays there."""
        with self._pipeline:
            self._begin_loop()
            batch = self._look()
        if batch is None:
            raise StopIteration
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
        """The place behind the last batch; in an elastic state with a ledger, or whose framework reads ahead, behind the last
        one that was recorded. InvalidArgumentError: there batches were handed out, and none was ever recorded."""
        place, epoch = self._place_now()
        if not self._elastic and not self._ahead:
            place = self._images.save()
        return {"position": place, "epoch": epoch}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The next loop continues from a place. InvalidArgumentError: it is of other data."""
        with self._pipeline:
            if self._moved:
                self._images.reshard(_world.rank(), _world.size(), _world.local_size())
                self._batches = self._images.batches_per_epoch
                self._moved = False
            self._loops += 1  # loops under way end
            self._ahead.clear()
            self._left_in = None
            position = state["position"]
            self._images.restore(position)
            self._go_to(position, state.get("epoch", _epoch_of(position)))

    def reset(self) -> None:
        """The rest of the epoch is shared out among the ranks that there are now, unless options said rank or size."""
        with self._pipeline:
            self._moved = self._follows_world


def classes_of(batch: Batch) -> Any:
    """Labels, or targets where images have several classes."""
    classes = batch.labels if batch.targets is None else batch.targets
    assert classes is not None
    return classes


def _number_in(position: str, name: str) -> int:
    return int(dict(word.split("=", 1) for word in position.split())[name])


def _order_of(position: str) -> int:
    """The number that stands for the order of the data, in a position; see ``order_fingerprint`` of xoe/data/images.h."""
    return _number_in(position, "images.order") % 2**64


def _epoch_of(position: str) -> int:
    """The epoch that a position is in; that of the last batch, where it is behind an epoch."""
    return _number_in(position, "repeat.epoch")
