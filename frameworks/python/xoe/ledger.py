"""The ledger of a training: which records each step consumed, in files that survive the death of their writer.

``xoe data ledger FOLDER`` proves from it that each epoch was each record exactly once, or names what was missing or doubled.
"""

from __future__ import annotations

import hashlib
import os
import socket
import time
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from xoe import world as _world
from xoe._elastic_parts import ElasticPart
from xoe.errors import InvalidArgumentError
from xoe.objects import allgather_object


class _Place(NamedTuple):
    """A world of a ledger."""

    world: int = 0  # 0: there is none
    run: int = 0  # the training
    file: str = ""


class Ledger(ElasticPart):
    """Writes what this rank consumes to a file of its own in ``folder``.

    Put it into the elastic state, and give it to the data set or the ``ElasticSampler``, which tells it of each batch; or call
    :meth:`step` with the records of each batch. A step counts once the state is committed; what is undone after a failure
    does not. One thread at a time.

    records: how many are in the data set; None: the data set that it is given to says so. fingerprint: a number of 64 bits
    that stands for them, the same on all ranks. resume: the program goes on with the training whose ledger is in the folder,
    also where it has no state of it; a ledger whose ``load_state_dict()`` was given a later place than the beginning does so
    by itself.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        records: int | None = None,
        fingerprint: int | None = None,
        resume: bool = False,
    ) -> None:
        self._folder = Path(folder)
        self._records, self._fingerprint, self._resume = records, fingerprint, resume
        self._file: int | None = None
        self._steps = 0  # of the training so far
        self._world = 0  # 0: none yet in this process
        self._tried = 0  # the last number that this rank had for a world, which may have failed
        self._run = 0  # the training, once there is a world
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
        InvalidArgumentError, on all ranks: the folder has the ledger of another training.
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
        mine = _Place(self._world, self._run) if self._world else _look_at(self._folder)
        goes_on = self._world > 0 or self._steps > 0 or self._resume
        # If a rank is lost during the next line, some ranks may have used this number for a world already.
        self._tried = max(self._tried, mine.world) + 1
        told = allgather_object((mine, goes_on, _run_of_job(), self._tried), name="xoe.ledger.world")
        known = [place for place, _, _, _ in told if place.world > 0]
        goes_on = any(one for _, one, _, _ in told)
        self._run = max(known).run if known and goes_on else told[0][2]
        for other in known:
            if other.run != self._run:
                raise InvalidArgumentError(
                    f"the folder {self._folder} has the ledger of another training ({other.file or 'of another rank'}); give"
                    " this one a folder of its own, or go on with that one: Ledger(folder, resume=True), or its state"
                )
        self._world = max(tried for _, _, _, tried in told)
        self._append(f"world {self._world} {_world.rank()} {_world.size()} {self._steps + 1}")
        self._begins_world = False

    def _append(self, line: str) -> None:
        if self._file is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            path = self._folder / f"{socket.gethostname()}-{os.getpid()}-{time.time_ns() // 1000}.ledger"
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o644)
            self._append(f"ledger 2 {self._records} {self._fingerprint or 0:x} {self._run:x}")
        rest = _with_checksum(line)
        while rest:
            rest = rest[os.write(self._file, rest) :]

    def __del__(self) -> None:
        if self._file is not None:
            os.close(self._file)


def _with_checksum(line: str) -> bytes:
    text = line.encode()
    return text + b" #%08x\n" % zlib.crc32(text)


def _look_at(folder: Path) -> _Place:
    """The last world in the folder."""
    last = _Place()
    for path in folder.glob("*.ledger"):
        run = 0
        for line in path.read_bytes().split(b"\n"):
            words = line.split()
            if len(words) == 6 and words[0] == b"ledger" and words[1] == b"2":
                run = int(words[4], 16)
            if len(words) == 6 and words[0] == b"world":
                last = max(last, _Place(int(words[1]), run, path.name))
    return last


def _run_of_job() -> int:
    """A name for the training that this job begins; processes that are started again in it find the same one."""
    job = os.environ.get("XOE_JOB", "")
    name = hashlib.sha256(job.encode()).digest() if job else os.urandom(8)
    return (int.from_bytes(name[:8], "big") >> 2) + 1
