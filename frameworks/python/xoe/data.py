"""The input pipeline: batches of decoded images, and plain records, from files.

No framework is needed: arrays have a shape, a dtype and indices, and become those of a framework without a copy
(``numpy.asarray(...)``, ``torch.from_dlpack(...)``). ``xoe.torch.data`` has data sets for PyTorch. Each rank reads its
shard of the data.

Options have the names of the C interface, which describes them: ``help(xoe.data.Images)`` lists them all, and so does the error
for an unknown one.
"""

from __future__ import annotations

import inspect
import json
import os
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from os import PathLike, fsdecode
from typing import Any, NamedTuple

from xoe import _core
from xoe import world as _world


def _options_of(text: str | None) -> str:
    """What a docstring says of options, from its first list on."""
    lines = inspect.cleandoc(text or "").splitlines()
    first = next((i for i, line in enumerate(lines) if line.endswith("::")), len(lines))
    return "\n".join(lines[first:])


def _with_options(text: str | None, described: str, defaults: dict[str, str], taken: Sequence[str] = ()) -> str:
    """A docstring with the library's own description of its options as lists behind it. defaults: where they are others here.
    taken: those that are arguments of their own."""
    defaults = {
        "rank": "that of xoe.init(), else 0",
        "size": "that of xoe.init(), else 1",
        "processes": "those of xoe.init() or of the launcher",
        **defaults,
    }
    lines = [inspect.cleandoc(text or "")]
    group = None
    for option in json.loads(described):
        if option["name"] in taken:
            continue
        if option["group"] != group:
            group = option["group"]
            lines += ["", f"{group or 'Options'}::", ""]
        value = defaults.get(option["name"]) or _python_value(option["default"], option["is_flag"])
        said = [f"default: {value}"] if " " in value and value[0] != "(" else []
        shows = option["name"] if said else f"{option['name']}={value}"
        choices = "" if option["is_flag"] or option["choices"] == "any text" else option["choices"]
        text = "; ".join(filter(None, [option["what"], choices, *said]))
        head = shows.ljust(23) + " "
        if len(shows) > 23:
            lines.append("  " + shows)
            head = " " * 24
        lines += textwrap.wrap(text, 124, initial_indent="  " + head, subsequent_indent=" " * 26) or ["  " + head.rstrip()]
    return "\n".join(lines)


def _python_value(text: str, is_flag: bool) -> str:
    if is_flag:
        return str(text == "1")
    parts = text.split(",")
    try:
        for part in parts:
            float(part)
    except ValueError:
        return f'"{text}"'
    return text if len(parts) == 1 else f"({', '.join(parts)})"


class Origin(NamedTuple):
    """Where an image was read.

    record: its number in the file, from 0: of a TFRecord, of a sample in an archive, of an idx image; else 0. name: as errors
    name it: ``data/train-00000-of-00004: record 17 at byte 90112``.
    """

    file: str
    record: int
    name: str


@dataclass(frozen=True)
class Batch:
    """Images and their classes, in memory of the library that each array keeps alive.

    pixels: [count, channels, height, width], or [count, height, width, channels] with layout="nhwc".
    labels: int64 [count]; None where images have several classes. targets: float32 [count, classes], the share of each class;
    None where images have one class and are not mixed. index: of this batch within the epoch. left: batches of the epoch
    that follow, the same on every rank. records: int64 [count], the images' numbers in the data set, from 0.
    """

    pixels: _core.BatchArray
    labels: _core.BatchArray | None
    targets: _core.BatchArray | None
    epoch: int
    index: int
    left: int
    records: _core.BatchArray
    _origins: _core.BatchOrigins = field(repr=False, compare=False)

    @property
    def origins(self) -> list[Origin]:
        """Where each image was read; found out when asked for."""
        return [Origin(*self._origins[image]) for image in range(len(self.records))]

    @property
    def files(self) -> list[str]:
        """The file of each image."""
        return [origin.file for origin in self.origins]


def _place(options: dict[str, Any], compare: bool) -> tuple[dict[str, Any], _core.Engine | None]:
    """The options, with this process's rank and size as defaults, and the number of ranks that share the host's CPUs; and the
    engine whose ranks compare what they open, if they do."""
    engine = None
    if "rank" not in options and "size" not in options and _world.is_initialized():
        options = {"rank": _world.rank(), "size": _world.size(), **options}
        engine = _world.current().engine if compare else None
    return {"processes": _local_size(), **options}, engine


def _left_out(count: int, noun: str, messages: list[str]) -> str:
    named = messages[:5]
    more = [f"and {count - len(named)} more"] if count > len(named) else []
    return f"{count} {noun}{'' if count == 1 else 's'} left out: {'; '.join(named + more)}"


def _local_size() -> int:
    if _world.is_initialized():
        return _world.local_size()
    variables = (os.environ.get(name, "") for name in ("XOE_LOCAL_SIZE", "LOCAL_WORLD_SIZE"))
    return next((int(value) for value in variables if value.isdecimal() and int(value) > 0), 1)


class _Pipeline:
    """Reads in threads of its own. One thread at a time may call it."""

    def __init__(self, pipeline: _core.Images | _core.Records) -> None:
        self._pipeline = pipeline
        self._closed = False

    def save(self) -> str:
        """The position after the last batch, the same on every rank, or this rank's position after the last record; a short
        string."""
        return self._pipeline.save()

    def restore(self, position: str) -> None:
        """Continues from a position: images bit-identically, also with another number of ranks; records with the same files,
        options, rank and size. InvalidArgumentError: the names, sizes or numbers of records of the images' files have changed,
        the seed or the kind of order, or the names of records' files. Contents of files of the same size are not compared."""
        self._pipeline.restore(position)

    def report(self) -> dict[str, Any]:
        """Where the time went, and what would help; for records, how many were delivered and skipped, and why."""
        report: dict[str, Any] = json.loads(self._pipeline.report())
        return report

    def close(self) -> None:
        """Ends the pipeline's threads; batches stay valid."""
        try:
            if not self._closed:
                self._warn()
        finally:
            self._closed = True
            self._pipeline.close()

    def _warn(self) -> None:
        """Warns, in the name of its caller's caller, of what was left out since the last time."""
        raise NotImplementedError


class Images(_Pipeline):
    """An endless sequence of batches, or one of ``epochs`` epochs; the same number of batches on every rank.

    directory: with TFRecord files, a folder for each class, NIH ChestX-ray14, MNIST or tar files, or one file of records.
    batch: images of this rank in one. ``options``: see the reference, or ``help(xoe.data.Images)``.

    compare: after :func:`xoe.init` the ranks compare what they open, unless options say rank or size: all of them open, in one
    order, and where one fails or finds other files all raise that error. False: each rank opens for itself.

    One thread at a time. Raises UnavailableError where there are no files, DataLossError for a damaged or missing one,
    InvalidArgumentError where the ranks have different files. Warns where the order looks badly mixed, of what is missing, and
    at the end of an epoch of the images that were left out, of each once. Warns where the first label was only assumed.
    """

    __doc__ = _with_options(__doc__, _core.images_options(), {"threads": '"auto"'}, ("directory", "batch"))

    def __init__(
        self, directory: str | bytes | PathLike[str], batch: int = 32, *, compare: bool = True, **options: Any
    ) -> None:
        defaults = {"directory": fsdecode(directory), "batch": batch, "threads": "auto"}
        self._images = _core.Images(*_place({**defaults, **options}, compare))
        super().__init__(self._images)
        for line in self._images.warnings():
            warnings.warn(line, stacklevel=2)

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        made = self._images.next()
        batch = None if made is None else Batch(*made)
        if batch is None or batch.left == 0:
            self._warn()
        if batch is None:
            raise StopIteration
        return batch

    def _warn(self) -> None:
        for line in self._images.later_warnings().split("\n"):
            if line:
                warnings.warn(line, stacklevel=3)

    def start_epoch(self, epoch: int) -> None:
        """Continues with the first batch of an epoch."""
        self._images.start_epoch(epoch)

    def reshard(self, rank: int, size: int, processes: int = 1) -> None:
        """Goes on as rank ``rank`` of ``size``, of which ``processes`` are on this host, with the files open as they are.

        The position is the beginning then: :meth:`restore` or :meth:`start_epoch` comes next. Each rank does so for itself.
        InvalidArgumentError: too few records for a batch on all ranks; nothing has changed then.
        """
        self._images.reshard(rank, size, processes)

    @property
    def facts(self) -> dict[str, Any]:
        """records_per_epoch (of all ranks), batches_per_epoch, classes, multi_label, skipped, waited (s), memory_bytes, lost,
        missing.

        classes is that of the names, else one more than the largest label, from 0. Where the files do not tell it (TFRecord
        without labels.txt) and ``classes`` was not given, the first call reads every record for it, on each rank that calls;
        ``batches_per_epoch`` alone reads nothing.
        """
        return self._images.facts()

    @property
    def batches_per_epoch(self) -> int:
        """The same on every rank; reads nothing."""
        return self._images.batches_per_epoch()

    @property
    def records_per_epoch(self) -> int:
        """Of all ranks; reads nothing."""
        return self._images.records_per_epoch()

    def __enter__(self) -> Images:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Records(_Pipeline):
    """The records of TFRecord files, undecoded, as bytes.

    patterns: paths whose parts may have ``*``, ``?``, ``[...]`` and ``{a,b}``. ``options``: see the reference, or
    ``help(xoe.data.Records)``. compare: as in :class:`Images`. Warns of files that are missing, and in the end of records
    that were left out.
    """

    __doc__ = _with_options(__doc__, _core.records_options(), {"epochs": "1"})

    def __init__(
        self,
        patterns: str | bytes | PathLike[str] | Sequence[str | bytes | PathLike[str]],
        *,
        compare: bool = True,
        **options: Any,
    ) -> None:
        listed = [patterns] if isinstance(patterns, (str, bytes, PathLike)) else list(patterns)
        placed, engine = _place({"epochs": 1, **options}, compare)
        self._records = _core.Records([fsdecode(pattern) for pattern in listed], placed, engine)
        self._place: list[Any] = []
        self._told = 0
        super().__init__(self._records)
        report = self.report()
        if report["missing"]:
            warnings.warn(_left_out(report["missing"], "missing file", report["missing_files"]), stacklevel=2)

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        record = self._records.next()
        if record is None:
            self._warn()
            raise StopIteration
        data, *self._place = record
        return data

    def skip(self, count: int) -> int:
        """Passes over records; gives how many there were, which is fewer at the end."""
        return self._records.skip(count)

    def files(self) -> list[tuple[str, int]]:
        """The path of each file, in their order, and how many records it has. The first call reads the headers of all files,
        or the index files beside them."""
        position = dict(word.split("=", 1) for word in self.save().split())
        return [self._records.file(number) for number in range(int(position["records.files"]))]

    def _warn(self) -> None:
        report = self.report()
        if report["bad"] > self._told:
            warnings.warn(_left_out(report["bad"] - self._told, "bad record", report["messages"][self._told :]), stacklevel=3)
        self._told = report["bad"]

    @property
    def place(self) -> tuple[str, int]:
        """The file of the record that came last, and its number there, from 0."""
        if not self._place:
            raise ValueError("no record has come yet")
        file, number = self._place
        return file, number
