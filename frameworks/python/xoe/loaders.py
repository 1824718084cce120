"""Loaders of batches, and a mixin that reads ahead in a thread, with Horovod's names."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Iterator
from typing import Any

_POLL = 0.1  # seconds after which a thread that waits for room looks whether it should end


class BaseDataLoader:
    """A loader has ``_iterate()``, which gives the batches of an epoch, and ``__len__``, how many there are."""

    def __len__(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} has no __len__")

    def _iterate(self) -> Iterator[Any]:
        raise NotImplementedError(f"{type(self).__name__} has no _iterate()")

    def _process_batch(self, batch: Any) -> Any:
        """Changes a batch on its way to the caller."""
        return batch

    def __iter__(self) -> Iterator[Any]:
        for batch in self._iterate():
            yield self._process_batch(batch)


class AsyncDataLoaderMixin:
    """Put before a :class:`BaseDataLoader` among the bases: a thread reads up to ``async_loader_queue_size`` batches ahead,
    also of the next epoch; 0: none does. An exception of ``_iterate`` is raised where the batch would have come. Call
    :meth:`close_async_loader` in the end.

    debug_data_loader has no effect.
    """

    def __init__(self, async_loader_queue_size: int = 64, debug_data_loader: bool = False, *args: Any, **kwargs: Any) -> None:
        self.async_loader_queue_size = async_loader_queue_size
        self.debug_data_loader = debug_data_loader
        super().__init__(*args, **kwargs)
        self._ended = threading.Event()
        self._batches: queue.Queue[tuple[str, Any]] = queue.Queue(max(1, async_loader_queue_size))
        self._reader: threading.Thread | None = None

    def close_async_loader(self) -> None:
        """Ends the thread."""
        self._ended.set()
        if self._reader is not None:
            self._reader.join()
        with contextlib.suppress(queue.Empty):
            while True:
                self._batches.get_nowait()

    def _put(self, kind: str, value: Any = None) -> bool:
        """False when the thread should end."""
        while not self._ended.is_set():
            with contextlib.suppress(queue.Full):
                self._batches.put((kind, value), timeout=_POLL)
                return True
        return False

    def _read(self) -> None:
        try:
            while not self._ended.is_set():
                for batch in self._iterate():  # type: ignore[attr-defined]
                    if not self._put("batch", batch):
                        return
                if not self._put("end"):
                    return
        except Exception as error:
            self._put("error", error)

    def __iter__(self) -> Iterator[Any]:
        if self.async_loader_queue_size <= 0:
            yield from super().__iter__()  # type: ignore[misc]
            return
        if self._ended.is_set():
            raise RuntimeError("the loader was closed")
        if self._reader is None:
            self._reader = threading.Thread(target=self._read, name="xoe-loader", daemon=True)
            self._reader.start()
        while True:
            kind, value = self._batches.get()
            if kind == "end":
                return
            if kind == "error":
                self._reader = None  # the next epoch begins with another one
                raise value
            yield self._process_batch(value)  # type: ignore[attr-defined]
