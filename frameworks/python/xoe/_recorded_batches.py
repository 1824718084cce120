"""Batches that count once a step was done with them: what the data sets of an elastic state have in common."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any, NamedTuple

from xoe._elastic_parts import ElasticPart
from xoe.errors import InvalidArgumentError
from xoe.ledger import Ledger

_MOST_UNRECORDED = 100_000


class _Given(NamedTuple):
    """A batch that was handed out and has not been recorded."""

    records: list[int]
    epoch: int
    left: int
    place: Any  # behind it

    def next_epoch(self) -> int:
        """The one that the next batch is of."""
        return self.epoch + (self.left == 0)


class RecordedBatches(ElasticPart):
    """A data set whose place is behind the last batch that counts. One thread may be handed batches while another one records.

    Subclasses call :meth:`_hand_out` for each batch, in order, and :meth:`_go_to` where they go on from another place.
    """

    # Whether frameworks read ahead of the training, so that a batch counts only once it is recorded.
    _reads_ahead = False

    def __init__(self, ledger: Ledger | None, place: Any, epoch: int) -> None:
        self._ledger = ledger
        self._mutex = threading.Lock()  # guards what follows
        self._given: deque[_Given] = deque()
        self._elastic = False
        self._counts_recorded = False  # whether batches count when they are recorded; else when they are handed out
        self._recorded = False  # whether any was
        self._place, self._next_epoch = place, epoch  # behind the last batch that counts

    def record_batch(self, batches: int = 1) -> None:
        """Records that a step was done with the batch that was handed out first of those that are not recorded; or so many.

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
                self._place, self._next_epoch = given.place, given.next_epoch()
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

    def _hand_out(self, records: list[int], epoch: int, left: int, place: Any) -> None:
        given = _Given(records, epoch, left, place)
        with self._mutex:
            if not self._counts_recorded:
                self._place, self._next_epoch = place, given.next_epoch()
                if self._ledger is None:
                    self._given.clear()
            if self._elastic or self._ledger is not None:
                self._given.append(given)
            if len(self._given) > _MOST_UNRECORDED:
                raise InvalidArgumentError(
                    f"{_MOST_UNRECORDED} batches were handed out and not recorded: call record_batch() after each step"
                )

    def _go_to(self, place: Any, epoch: int) -> None:
        with self._mutex:
            self._given.clear()
            self._place, self._next_epoch = place, epoch

    def _unrecorded(self) -> _Given | None:
        """The first batch that does not count yet, which the next loop has to give again."""
        with self._mutex:
            return self._given[0] if self._elastic and self._counts_recorded and self._given else None

    def _place_now(self) -> tuple[Any, int]:
        """The place, and its epoch. InvalidArgumentError: batches are to be recorded, and none ever was."""
        with self._mutex:
            if self._elastic and self._counts_recorded and self._given and not self._recorded:
                raise InvalidArgumentError("the data set's record_batch() is to be called after each step, before the commit")
            return self._place, self._next_epoch
