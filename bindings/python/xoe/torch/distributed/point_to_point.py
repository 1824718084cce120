"""Send and receive over Gloo, since the engine does not have them; each pair of ranks has a group of its own.

A pair's group is created on first use, in a thread, so that a rank that sends to its neighbour does not wait for it: the
neighbour may be about to send to another one. PyTorch's Gloo does not encrypt, so an encrypted job has no pairs between hosts.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore

from xoe._addresses import host_name
from xoe.errors import OperationTimeoutError, PeerLostError, UnsupportedError, XoeError


class Transfer:
    """A message in flight."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._started = threading.Event()
        self._work: Any = None
        self._error: Exception | None = None

    def start(self, group: Any, begin: Callable[[Any], Any]) -> None:
        """Starts the transfer in a pair's group; fails if ``group`` is an error."""
        try:
            if isinstance(group, Exception):
                raise group
            self._work = begin(group)
        except Exception as error:
            self._error = error
        self._started.set()

    def wait(self) -> None:
        """Blocks until it has completed."""
        self._started.wait()
        try:
            if self._error is not None:
                raise self._error
            self._work.wait()
        except XoeError:
            raise
        except (RuntimeError, ValueError) as error:
            kind = OperationTimeoutError if "timed out" in str(error).lower() else PeerLostError
            raise kind(f"{self._what}: {error}") from error

    def poll(self) -> bool:
        """Whether it has completed or failed."""
        return self._started.is_set() and (self._error is not None or bool(self._work.is_completed()))


class Pair:
    """The connection of this rank to another one."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._lock = threading.Lock()
        self._group: Any = None
        self._queued: list[tuple[Transfer, Callable[[Any], Any]]] = []
        threading.Thread(target=self._connect, args=(make,), name="xoe pair", daemon=True).start()

    def submit(self, transfer: Transfer, begin: Callable[[Any], Any]) -> None:
        """Starts a transfer, in the order of calls."""
        with self._lock:
            if self._group is None:
                self._queued.append((transfer, begin))
            else:
                transfer.start(self._group, begin)

    def set_timeout(self, timeout: timedelta) -> None:
        """How long messages from now on may take; no effect before PyTorch 2.13."""
        with self._lock:
            if hasattr(self._group, "set_timeout"):
                self._group.set_timeout(timeout)

    def _connect(self, make: Callable[[], Any]) -> None:
        try:
            group = make()
        except Exception as error:
            group = error
        with self._lock:
            self._group = group
            for transfer, begin in self._queued:
                transfer.start(group, begin)
            self._queued.clear()


class PointToPoint:
    """Point-to-point messages within one group."""

    def __init__(self, store: Any, rank: int, timeout: timedelta) -> None:
        self._store = store
        self._rank = rank
        self._timeout = timeout
        self._lock = threading.Lock()
        self._pairs: dict[int, Pair] = {}

    def set_timeout(self, timeout: timedelta) -> None:
        """How long messages from now on may take."""
        with self._lock:
            self._timeout = timeout
            for pair in self._pairs.values():
                pair.set_timeout(timeout)

    def send(self, tensor: Any, to: int, tag: int) -> Transfer:
        """Starts sending a dense tensor in host memory."""
        transfer = Transfer(f"send to rank {to}")
        self._pair(to).submit(transfer, lambda group: group.send([tensor], self._pair_rank(to), tag))
        return transfer

    def receive(self, tensor: Any, source: int, tag: int) -> Transfer:
        """Starts receiving into a dense tensor in host memory."""
        transfer = Transfer(f"receive from rank {source}")
        self._pair(source).submit(transfer, lambda group: group.recv([tensor], self._pair_rank(source), tag))
        return transfer

    def _pair_rank(self, other: int) -> int:
        """The other's rank in the pair."""
        return 0 if other < self._rank else 1

    def _pair(self, other: int) -> Pair:
        if not dist.is_gloo_available():
            raise UnsupportedError("send and recv need Gloo, and this PyTorch is built without it")
        with self._lock:
            if other not in self._pairs:
                self._pairs[other] = Pair(lambda: self._make(other))
            return self._pairs[other]

    def _make(self, other: int) -> Any:
        low, high = sorted((self._rank, other))
        # A separate connection where PyTorch supports it: waiting there must not block other users of the store.
        store = self._store.clone() if hasattr(self._store, "clone") else self._store
        store = PrefixStore(f"pair/{low}-{high}", store)
        if os.environ.get("XOE_ENCRYPT") == "1":
            self._refuse_other_host(store, other)
        gloo: Any = dist.ProcessGroupGloo
        return gloo(store, 1 - self._pair_rank(other), 2, self._timeout)

    def _refuse_other_host(self, store: Any, other: int) -> None:
        """Raises UnsupportedError if the other rank is on another host."""
        mine = host_name()
        store.set(f"host/{self._rank}", mine)
        theirs = store.get(f"host/{other}").decode()
        if theirs != mine:
            raise UnsupportedError(
                f"the ranks are on the hosts {mine} and {theirs}, and XOE_ENCRYPT=1: send and recv go over PyTorch's own Gloo,"
                " which does not encrypt. Collectives do: use broadcast in a group of the two ranks, or all_to_all"
            )
