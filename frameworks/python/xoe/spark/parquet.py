"""A rank's share of the rows of Parquet files, in batches, a part of it in memory at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

_ROWS_IN_MEMORY = 1 << 18  # what is shuffled at once

Batch = dict[str, Any]  # an array for each column


def shares(rows: int, ranks: int) -> list[range]:
    """The rows of each rank; their numbers differ by one at most."""
    return [range(rows * rank // ranks, rows * (rank + 1) // ranks) for rank in range(ranks)]


def array_of(column: Any, name: str) -> Any:
    """An array of a column of Arrow: numbers, or lists of one length, which become its further dimensions."""
    import pyarrow as pa

    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if column.null_count:
        missing = "1 row" if column.null_count == 1 else f"{column.null_count} rows"
        raise ValueError(f"column {name} has {missing} without a value; fill or drop them first")
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        lengths = set(column.value_lengths().to_pylist())
        if len(lengths) > 1:
            raise ValueError(
                f"the lists of column {name} differ in length, from {min(lengths)} to {max(lengths)};"
                " bring them to one length first"
            )
    elif not pa.types.is_fixed_size_list(column.type):
        return column.to_numpy(zero_copy_only=False)
    inner = array_of(column.flatten(), name)
    return inner.reshape(len(column), -1, *inner.shape[1:])


class Rows:
    """The rows of one rank.

    dataset: pyarrow's, of Parquet files. seed: shuffles them, in another way in each epoch; None: in their order.
    transformation: is given each batch as a pandas.DataFrame, and returns one. keep: all of them stay in memory after the first
        epoch.
    """

    def __init__(
        self,
        dataset: Any,
        columns: Sequence[str],
        rank: int,
        ranks: int,
        batch: int,
        seed: int | None = None,
        transformation: Callable[[Any], Any] | None = None,
        keep: bool = False,
    ) -> None:
        self._columns = list(columns)
        self._batch = batch
        self._seed = None if seed is None else [seed, rank]
        self._transformation = transformation
        self._keep = keep
        self._kept: dict[int, Any] = {}
        self._groups = [part for file in dataset.get_fragments() for part in file.split_by_row_group()]
        counts = [part.metadata.row_group(part.row_groups[0].id).num_rows for part in self._groups]
        self.total = sum(counts)
        if self.total == 0:
            raise ValueError("the data has no rows")
        own = shares(self.total, ranks)
        self._mine = own[rank] or range(rank % self.total, rank % self.total + 1)  # more ranks than rows
        self.batches = -(-max(1, *(len(one) for one in own)) // batch)  # the same on all ranks
        ends = np.cumsum(counts)
        self._spans = []  # (group, first row, last row + 1), within the group
        for index, (end, count) in enumerate(zip(ends.tolist(), counts, strict=True)):
            first, last = max(self._mine.start, end - count), min(self._mine.stop, end)
            if first < last:
                self._spans.append((index, first - end + count, last - end + count))

    def _read(self, index: int) -> Any:
        if index in self._kept:
            return self._kept[index]
        table = self._groups[index].to_table(columns=self._columns)
        if self._keep:
            self._kept[index] = table
        return table

    def _chunks(self, random: Any) -> Iterator[Any]:
        """Tables of many rows, together this rank's."""
        import pyarrow as pa

        order = list(range(len(self._spans)))
        if random is not None:
            random.shuffle(order)
        found: list[Any] = []
        for index in order:
            group, first, last = self._spans[index]
            found.append(self._read(group).slice(first, last - first))
            if sum(map(len, found)) >= _ROWS_IN_MEMORY:
                yield pa.concat_tables(found)
                found = []
        if found:
            yield pa.concat_tables(found)

    def _tables(self, epoch: int) -> Iterator[Any]:
        """Tables of a batch each; the last has the rest."""
        import pyarrow as pa

        random = None if self._seed is None else np.random.default_rng([*self._seed, epoch])
        rest = None
        for chunk in self._chunks(random):
            table = chunk if random is None else chunk.take(random.permutation(len(chunk)))
            table = table if rest is None else pa.concat_tables([rest, table])
            whole = len(table) // self._batch * self._batch
            for begin in range(0, whole, self._batch):
                yield table.slice(begin, self._batch)
            rest = table.slice(whole)
        if rest is not None and len(rest):
            yield rest

    def epoch(self, epoch: int, steps: int | None = None) -> Iterator[Batch]:
        """So many batches (default: all); where there are fewer, they begin again."""
        wanted = self.batches if steps is None else steps
        made = 0
        while made < wanted:
            for table in self._tables(epoch):
                if made == wanted:
                    return
                made += 1
                yield self._arrays(table)

    def _arrays(self, table: Any) -> Batch:
        if self._transformation is None:
            return {name: array_of(table.column(name), name) for name in self._columns}
        frame = self._transformation(table.to_pandas())
        return {name: np.stack(frame[name].to_numpy()) for name in self._columns}
