"""The ledger of a training: which records each step consumed, in files that survive the death of their writer.

``xoe data ledger FOLDER`` proves from it that each epoch was each record exactly once, or names what was missing or doubled.
"""

from __future__ import annotations

import os
import socket
import time
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from xoe import world as _world
from xoe._elastic_parts import ElasticPart
from xoe.errors import InvalidArgumentError
from xoe.objects import allgather_object


class Ledger(ElasticPart):
    """Writes what this rank consumes to a file of its own in ``folder``.

    Put it into the elastic state, and give it to the data set or the ``ElasticSampler``, which tells it of each batch; or call
    :meth:`step` with the records of each batch. A step counts once the state is committed; what is undone after a failure
    does not. One thread at a time.

    records: how many are in the data set; None: the data set that it is given to says so. fingerprint: a number of 64 bits
    that stands for them, the same on all ranks.
    """

    def __init__(self, folder: str | os.PathLike[str], records: int | None = None, fingerprint: int | None = None) -> None:
        self._folder = Path(folder)
        self._records, self._fingerprint = records, fingerprint
        self._file: int | None = None
        self._steps = 0  # of the training so far
        self._world = 0  # 0: none yet in this process
        self._begins_world = True

    def describe(self, records: int, fingerprint: int = 0) -> None:
        """Tells it of its data set, which calls this. InvalidArgumentError: it has been told of another one."""
        if self._records not in (None, records):
            raise InvalidArgumentError(f"the ledger is of {self._records} records, and the data set has {records}")
        self._records = records
        if self._fingerprint is None:
            self._fingerprint = fingerprint

    def step(self, records: Iterable[int], epoch: int = 0, left: int = 0) -> None:
        """Notes the records of this rank's batch in a step. All ranks call it equally often, before the state is committed.

        records: their numbers in the data set, from 0. left: the batches of the epoch that follow; 0 ends it.
        """
        if self._records is None:
            raise InvalidArgumentError("Ledger(folder, records): nothing told it how many records the data set has")
        if self._begins_world:
            self._begin_world()
        self._steps += 1
        numbers = "".join(f" {int(record)}" for record in records)
        self._append(f"step {self._world} {self._steps} {_world.rank()} {epoch} {left}{numbers}")

    def commit(self) -> None:
        """Notes that the steps so far are part of the state, which calls this."""
        if not self._begins_world:
            self._append(f"done {self._world} {self._steps}")

    def reset(self) -> None:
        """The ranks are others from the next step on."""
        self._begins_world = True

    def state_dict(self) -> dict[str, Any]:
        """The number of steps so far."""
        return {"steps": self._steps}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on behind these steps; later ones that it has noted are undone."""
        self._steps = state["steps"]
        self.reset()

    def _begin_world(self) -> None:
        last = max(allgather_object(self._world or _last_world(self._folder), name="xoe.ledger.world"))
        self._world = last + 1
        self._append(f"world {self._world} {_world.rank()} {_world.size()} {self._steps + 1}")
        self._begins_world = False

    def _append(self, line: str) -> None:
        if self._file is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            path = self._folder / f"{socket.gethostname()}-{os.getpid()}-{time.time_ns() // 1000}.ledger"
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o644)
            self._append(f"ledger 1 {self._records} {self._fingerprint or 0:x}")
        rest = _with_checksum(line)
        while rest:
            rest = rest[os.write(self._file, rest) :]

    def __del__(self) -> None:
        if self._file is not None:
            os.close(self._file)


def _with_checksum(line: str) -> bytes:
    text = line.encode()
    return text + b" #%08x\n" % zlib.crc32(text)


def _last_world(folder: Path) -> int:
    last = 0
    for path in folder.glob("*.ledger"):
        for line in path.read_bytes().split(b"\n"):
            words = line.split()
            if len(words) == 6 and words[0] == b"world":
                last = max(last, int(words[1]))
    return last
