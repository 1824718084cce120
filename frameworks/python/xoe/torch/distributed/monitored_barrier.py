"""torch.distributed.monitored_barrier, through the group's store: it tells who is missing, and the group stays usable."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

from torch._C._distributed_c10d import PrefixStore

from xoe.errors import OperationTimeoutError


class MonitoredBarrier:
    """The barriers of one group. Rank 0 waits for the others, and tells them whether all have come.

    Errors have PyTorch's words, which programs look for. Ranks are those of the group.
    """

    def __init__(self, store: Any, rank: int, size: int) -> None:
        self._given = store
        self._rank = rank
        self._size = size
        self._store: Any = None
        self._count = 0

    def wait(self, timeout: timedelta, all_ranks: bool) -> None:
        """Raises OperationTimeoutError where ranks do not come in time. all_ranks: name all of them, not the first."""
        if self._store is None:
            # A connection of its own where PyTorch supports it: waiting there must not block other users of the store.
            store = self._given.clone() if hasattr(self._given, "clone") else self._given
            self._store = PrefixStore("xoe/monitored_barrier/", store)
        self._count += 1
        if self._rank == 0:
            self._gather(timeout, all_ranks)
        else:
            self._report(timeout)

    def _key(self, what: str | int, count: int) -> str:
        return f"{count}/{what}"

    def _gather(self, timeout: timedelta, all_ranks: bool) -> None:
        end = time.monotonic() + timeout.total_seconds()
        missing: list[int] = []
        for rank in range(1, self._size):
            left = end - time.monotonic()
            if left <= 0 and not missing:
                self._fail(f"Rank 0 timed out in monitoredBarrier after {_text(timeout)}, before it waited for rank {rank}")
            if not self._has_come(rank, max(left, 0)):
                missing.append(rank)
                if not all_ranks:
                    break
        if missing:
            named = f"Rank{'s' if len(missing) > 1 else ''} {', '.join(map(str, missing))}"
            self._fail(f"[Rank 0]: {named} failed to pass monitoredBarrier in {_text(timeout)}: Timed out")
        self._store.set(self._key("end", self._count), "")
        self._forget(self._count - 1)

    def _has_come(self, rank: int, seconds: float) -> bool:
        key = self._key(rank, self._count)
        if seconds <= 0:
            return bool(self._store.check([key]))
        try:
            self._store.wait([key], timedelta(seconds=seconds))
        except RuntimeError:
            return bool(self._store.check([key]))
        return True

    def _fail(self, text: str) -> None:
        self._store.set(self._key("end", self._count), text)
        raise OperationTimeoutError(text)

    def _report(self, timeout: timedelta) -> None:
        self._store.set(self._key(self._rank, self._count), "")
        end = self._key("end", self._count)
        try:
            self._store.wait([end], timeout)
            error = self._store.get(end).decode()
        except RuntimeError:
            error = f"Timed out after {_text(timeout)}"
        if error:
            raise OperationTimeoutError(
                f"[Rank {self._rank}]: Rank {self._rank} successfully reached monitoredBarrier, but received errors while"
                f" waiting for send/recv from rank 0: {error}"
            )

    def _forget(self, count: int) -> None:
        """Removes the keys of a barrier that all ranks have left: they have come to the next one."""
        if count > 0:
            for what in ("end", *range(1, self._size)):
                self._store.delete_key(self._key(what, count))


def _text(timeout: timedelta) -> str:
    return f"{timeout.total_seconds() * 1000:g} ms"
