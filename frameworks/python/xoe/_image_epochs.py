"""An epoch of images for each loop: what the data sets of all frameworks have in common."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from os import PathLike
from typing import Any, NamedTuple

from xoe import world as _world
from xoe._elastic_parts import ElasticPart
from xoe.data import Batch, Images
from xoe.errors import InvalidArgumentError
from xoe.ledger import Ledger


class _Given(NamedTuple):
    """A batch that was handed out and has not been recorded."""

    records: list[int]
    epoch: int
    left: int
    position: str  # behind it

    def next_epoch(self) -> int:
        """The one that the next batch is of."""
        return self.epoch + (self.left == 0)


class ImageEpochs(ElasticPart):
    """Options are those of :class:`xoe.data.Images`. ledger: is told of the records of each batch by :meth:`record_batch`.

    In an elastic state the place in the data is part of that state: it is behind the last batch that :meth:`record_batch` was
    told of. After a change of the ranks the rest of the epoch is shared out among those that there are. One thread may loop
    while another one records; a loop that another one has followed ends.
    """

    # Whether frameworks read ahead of the training, so that a batch counts only once it is recorded.
    _reads_ahead = False

    def __init__(
        self, directory: str | bytes | PathLike[str], batch: int = 32, *, ledger: Ledger | None = None, **options: Any
    ) -> None:
        self._images = Images(directory, batch, **options)
        self._batches: int = self._images.batches_per_epoch
        self._follows_world = _world.is_initialized() and "rank" not in options and "size" not in options
        self._ledger = ledger
        if ledger is not None:
            ledger.describe(self._images.records_per_epoch, _order_of(self._images.save()))
        self._batch: Batch | None = None
        self._pipeline = threading.RLock()  # is taken before _mutex, and guards the pipeline and what follows
        self._loops = 0  # so far
        self._left_in: int | None = None  # the epoch in which the last loop ended early
        self._ahead: deque[tuple[Batch, str]] = deque()  # read, and not handed out
        self._moved = False  # whether the ranks are others than those that the images are shared among
        self._mutex = threading.Lock()  # guards what follows
        self._given: deque[_Given] = deque()
        self._elastic = False
        self._counts_recorded = False  # whether batches count when they are recorded; else when they are handed out
        self._recorded = False  # whether any was
        self._position = self._images.save()  # behind the last batch that counts
        self._next_epoch = _epoch_of(self._position)

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
        with self._mutex:
            again = self._elastic and self._counts_recorded and len(self._given) > 0
        if self._moved:
            self.load_state_dict({"position": self._position, "epoch": self._next_epoch})
        elif again:
            # Batches that no step was done with come again.
            self._restore(self._position, self._next_epoch)
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
        with self._mutex:
            if not self._counts_recorded:
                self._position, self._next_epoch = position, batch.epoch + (batch.left == 0)
                if self._ledger is None:
                    self._given.clear()
            if self._elastic or self._ledger is not None:
                self._given.append(_Given(batch.records.tolist(), batch.epoch, batch.left, position))
        return batch

    def _look(self) -> Batch | None:
        """The batch that comes next; None at the end of all epochs."""
        with self._pipeline:
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
            with self._mutex:
                if self._counts_recorded and self._given:
                    return self._given[0].left + 1
            batch = self._look()
            return 0 if batch is None else batch.left + 1

    def peek(self) -> Batch:
        """The first batch that the next loop has, which stays there."""
        with self._pipeline:
            self._begin_loop()
            batch = self._look()
        if batch is None:
            raise StopIteration
        return batch

    def record_batch(self, batches: int = 1) -> None:
        """Records that a step was done with the batch that was handed out first of those that are not recorded, or with so many.

        All ranks call it for each of their batches, before the state is committed; for empty batches, too. It tells the ledger,
        and from then on the place in the data is behind the last batch that was recorded, however far a framework reads ahead.
        InvalidArgumentError: fewer batches were handed out since the last commit or restore. Any thread.
        """
        for _ in range(batches):
            with self._mutex:
                if not self._given:
                    raise InvalidArgumentError(
                        "record_batch: every batch that was handed out is recorded; call it once for each batch, and put the"
                        " data set into the elastic state before its first batch"
                    )
                self._counts_recorded = self._recorded = True
                given = self._given.popleft()
                self._position, self._next_epoch = given.position, given.next_epoch()
            if self._ledger is not None:
                self._ledger.step(given.records, given.epoch, given.left)

    def steps_done(self, steps: int) -> None:
        """:meth:`record_batch`, for callbacks."""
        self.record_batch(steps)

    @property
    def epoch(self) -> int:
        """The epoch that goes on or begins behind the place of :meth:`state_dict`, from 0; the same on all ranks. A training
        of N epochs loops while it is less than N, so that an interrupted one has as many."""
        with self._mutex:
            return self._next_epoch

    def follow(self) -> None:
        """An elastic state holds the data set from now on."""
        with self._mutex:
            self._elastic = True
            self._counts_recorded = self._counts_recorded or self._reads_ahead or self._ledger is not None

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
        if not self._elastic and not self._ahead:
            return {"position": self._images.save(), "epoch": self._next_epoch}
        with self._mutex:
            if self._elastic and self._counts_recorded and self._given and not self._recorded:
                raise InvalidArgumentError("the data set's record_batch() is to be called after each step, before the commit")
            return {"position": self._position, "epoch": self._next_epoch}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The next loop continues from a place. InvalidArgumentError: it is of other data."""
        with self._pipeline:
            if self._moved:
                self._images.reshard(_world.rank(), _world.size(), _world.local_size())
                self._batches = self._images.batches_per_epoch
                self._moved = False
            self._restore(state["position"], state.get("epoch"))
            self._left_in = None

    def reset(self) -> None:
        """The rest of the epoch is shared out among the ranks that there are now, unless options said rank or size."""
        with self._pipeline:
            self._moved = self._follows_world

    def _restore(self, position: str, epoch: int | None) -> None:
        self._loops += 1  # loops under way end
        self._ahead.clear()
        self._images.restore(position)
        with self._mutex:
            self._given.clear()
            self._position, self._next_epoch = position, _epoch_of(position) if epoch is None else epoch


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
