"""Batches of plain records for elastic training: each record exactly once an epoch, whatever ranks there are."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from os import PathLike
from typing import Any

from xoe import world as _world
from xoe._recorded_batches import RecordedBatches
from xoe.data import Records
from xoe.errors import InvalidArgumentError
from xoe.ledger import Ledger

# Options of Records that the batches need as they are.
_OWN = {"rank": 0, "size": 1, "shard_by_file": False, "epochs": 1, "processes": 1, "on_error": "fail", "max_bad": 0}
_STRIDE = 0x9E3779B97F4A7C15  # between the seeds of two epochs


class RecordBatches(RecordedBatches):
    """Lists of records of TFRecord files, undecoded, as bytes: one epoch each time it is iterated over::

        records = RecordBatches("data/train-*", batch=64, shuffle_buffer=10000, ledger=ledger)
        state = hvd.elastic.TorchState(model=model, records=records, ledger=ledger)

        while state.records.epoch < EPOCHS:
            for batch in state.records:
                ...
                state.records.record_batch()
                state.commit()

    All ranks go through one order, a function of seed and epoch alone; rank r of n takes the records r, r + n, r + 2n, ... of
    it. So each record comes once in an epoch, also where the ranks change within it, and the last batches may be short, on
    some ranks empty. A loop that was left early goes on where it was. Each rank reads all files for it: fast disks and a few
    ranks are what this is for. After a change of the ranks, the epoch is read again up to its place.

    patterns: as of :class:`xoe.data.Records`. batch: records of this rank in one. ledger: is told of each batch by
    :meth:`record_batch`. ``options``: shuffle_files, shuffle_buffer, cycle_length, block_length, seed, compression and those of
    reading, of :class:`xoe.data.Records`; a damaged record is an error. The headers of all files are read in the beginning.
    One thread may loop while another one records. InvalidArgumentError: an option that would give another order.
    """

    def __init__(
        self,
        patterns: str | bytes | PathLike[str] | Sequence[str | bytes | PathLike[str]],
        batch: int = 32,
        *,
        ledger: Ledger | None = None,
        seed: int = 0,
        **options: Any,
    ) -> None:
        for name in options:
            if name in _OWN:
                raise InvalidArgumentError(f"RecordBatches has no option {name}: all ranks go through one order")
        if batch < 1:
            raise InvalidArgumentError(f"RecordBatches: batch (1 or more) is {batch}")
        self._patterns, self._size_of_batch, self._seed, self._options = patterns, batch, seed, options
        with closing(self._open(0)) as records:
            files = records.files()
        self._first: dict[str, int] = {}
        self._count = 0
        for path, count in files:
            self._first[path] = self._count
            self._count += count
        if ledger is not None:
            ledger.describe(self._count, seed)
        super().__init__(ledger, 0, 0)
        self._reading = threading.RLock()  # guards what follows
        self._loops = 0  # so far
        self._at = (0, 0)  # the epoch that the next batch is of, and how many of its records all ranks have had
        self._records: Records | None = None  # open at that place

    def __iter__(self) -> Iterator[list[bytes]]:
        with self._reading:
            self._loops += 1
            loop = self._loops
            if self._unrecorded() is not None:
                # Batches that no step was done with come again.
                self._seek(self._place, self._next_epoch)
        left = 1
        while left > 0:
            with self._reading:
                if loop != self._loops:  # another loop has begun
                    return
                batch, left = self._read()
            yield batch

    def __len__(self) -> int:
        """Batches of this rank in a whole epoch; the same on every rank."""
        return -(-self._count // (self._size_of_batch * _ranks()))

    @property
    def records_per_epoch(self) -> int:
        """Of all ranks."""
        return self._count

    def state_dict(self) -> dict[str, Any]:
        """The place behind the last batch; in an elastic state with a ledger behind the last one that was recorded."""
        place, epoch = self._place_now()
        return {"consumed": place, "epoch": epoch, "records": self._count, "seed": self._seed}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The next loop continues from a place. InvalidArgumentError: it is of other data, or of another seed."""
        if (state["records"], state["seed"]) != (self._count, self._seed):
            raise InvalidArgumentError(
                f"saved position: of {state['records']} records with seed {state['seed']}; here are {self._count}, and the seed"
                f" is {self._seed}"
            )
        with self._reading:
            self._loops += 1
            self._seek(state["consumed"], state["epoch"])

    def reset(self) -> None:
        """The ranks are others: the place is that of all of them, so nothing else changes."""

    def _open(self, epoch: int) -> Records:
        seed = (self._seed + epoch * _STRIDE) % 2**63
        return Records(self._patterns, compare=False, **{**self._options, **_OWN, "seed": seed})

    def _seek(self, consumed: int, epoch: int) -> None:
        if self._records is not None:
            self._records.close()
        self._records, self._at = None, (epoch, consumed)
        self._go_to(consumed, epoch)

    def _read(self) -> tuple[list[bytes], int]:
        epoch, at = self._at
        if self._records is None:
            self._records = self._open(epoch)
            self._records.skip(at)
        rank, size = (_world.rank(), _world.size()) if _world.is_initialized() else (0, 1)
        end = min(self._count, at + self._size_of_batch * size)
        batch, numbers = [], []
        for wanted in range(at + rank, end, size):
            self._records.skip(wanted - at)
            batch.append(next(self._records))
            file, number = self._records.place
            numbers.append(self._first[file] + number)
            at = wanted + 1
        self._records.skip(end - at)
        left = -(-(self._count - end) // (self._size_of_batch * size))
        self._at = (epoch, end) if left else (epoch + 1, 0)
        if left == 0:
            self._records.close()
            self._records = None
        self._hand_out(numbers, epoch, left, self._at[1])
        return batch, left


def _ranks() -> int:
    return _world.size() if _world.is_initialized() else 1
