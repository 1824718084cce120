"""Operations in flight, as torch.distributed sees them."""

from __future__ import annotations

import collections
import contextlib
import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Protocol

import torch
from torch._C import _distributed_c10d

from xoe.errors import OperationTimeoutError
from xoe.torch.distributed import callbacks
from xoe.torch.distributed.backward import EndOfBackward, Held
from xoe.torch.distributed.completer import Completer
from xoe.torch.distributed.untraced import untraced_methods
from xoe.torch.gpu import side_stream

_Work: Any = _distributed_c10d.Work

# Before 2.7, C++ kept only its own half of a work created in Python; without the other half it would wait for ever.
_CPP_KEEPS_WORKS = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 7)
_MOST_KEPT = 4096  # works to keep for such a PyTorch; all but the last few without their tensors
_LAST_FEW = 16
_kept: collections.deque[Work] = collections.deque()
_with_tensors: collections.deque[Work] = collections.deque()
_keeping = threading.Lock()


class Waitable(Protocol):
    """An operation of the engine, or an object that behaves like one."""

    def wait(self) -> Any: ...

    def poll(self) -> bool: ...


@untraced_methods
class Work(_Work):  # type: ignore[misc]
    """Operations that complete together, and a function to call then. Any thread may wait, without spinning or the GIL."""

    def __init__(
        self,
        operations: Sequence[Waitable],
        finish: Callable[[], None] | None,
        result: list[torch.Tensor],
        completer: Completer,
        sequence: callbacks.Sequence,
        source: Callable[[], int] | None = None,
        backward: EndOfBackward | None = None,
        device: torch.device | None = None,
    ) -> None:
        """source: tells the sender of a received message. backward: completes it at the end of the backward that runs now,
        where a future is asked for. device: of a GPU, whose current stream waits for the operations instead of the thread."""
        super().__init__()
        self.on_error: Callable[[Exception], None] | None = None  # called once, before those that wait learn of an error
        self._operations = list(operations)
        self._finish = finish
        self._device = device
        self._in_streams: list[Any] = []  # operations for which each stream that uses the result waits
        self._result = result
        self._completer = completer
        self._sequence = sequence
        self._number = sequence.add_work()
        self._source = source
        self._backward = backward
        self._error: Exception | None = None
        self._done = False
        self._lock = threading.Lock()
        self._finished = threading.Event()
        self._promise: Any = None
        self._future: Any = None
        if not _CPP_KEEPS_WORKS:
            _keep(self)

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Blocks until it has completed, or, of GPU tensors with XOE_GPU_WAIT=stream, makes the current stream wait. Raises the
        operation's own error: PeerLostError where a rank died.

        timeout: 0 or None: the group's.
        """
        seconds = 0.0 if timeout is None else timeout.total_seconds()
        if seconds > 0 and not self._done:
            self._completer.put(self)
            if not self._finished.wait(seconds):
                raise OperationTimeoutError(f"Timed out after {seconds:g} s; the operation continues")
        self.complete()
        if self._error is not None:
            raise self._error
        for operation in self._in_streams:  # another thread may have completed it, for a stream of its own
            operation.wait_in_stream(torch.cuda.current_stream(self._device).cuda_stream)
        return True

    def is_completed(self) -> bool:
        """Whether it has completed or failed."""
        if not self._done and all(operation.poll() for operation in list(self._operations)):
            self.complete()
        return self._done

    poll = is_completed

    def has_ended(self) -> bool:
        """Whether it has completed and its future, if there is one, knows. Submits nothing that is held back."""
        if self._promise is not None:
            return False
        if not self._done and any(isinstance(operation, Held) for operation in self._operations):
            return False
        with contextlib.suppress(Exception):  # the error is told by complete(), too
            return self.is_completed()
        return False

    def is_success(self) -> bool:
        """Whether it has completed without an error."""
        return self.is_completed() and self._error is None

    def exception(self) -> Exception | None:
        """The error, if it failed."""
        return self._error

    def result(self) -> list[torch.Tensor]:
        """The output tensors."""
        self.wait()
        return self._result

    def synchronize(self) -> None:
        """Waits: the tensors are in host memory, or the current stream copies them from there."""
        self.wait()

    def source_rank(self) -> int:
        """The source rank of a receive, within the group."""
        return -1 if self._source is None else self._source()

    _source_rank = source_rank

    def get_future(self) -> Any:
        """A future of the tensors. Its errors are RuntimeError, with the message that :meth:`wait` raises."""
        with self._lock:
            if self._future is None:
                devices: Any = sorted({tensor.device for tensor in self._result if tensor.device.type == "cuda"}, key=str)
                self._promise = torch.futures.Future(devices=devices or None)
                # C++ (DDP's reducer) sees errors that a callback raises, but not errors that are set from Python.
                self._future = self._promise.then(self._deliver)
                callbacks.follow(self._future, self._sequence.after_work(self._number))
                if self._backward is None:
                    self._completer.put(self)
                else:
                    self._backward.add(self, self._completer)
            return self._future

    def _deliver(self, _: Any) -> list[torch.Tensor]:
        if self._error is not None:
            raise self._error
        return self._result

    def completers_stream(self) -> contextlib.AbstractContextManager[Any]:
        """A stream of its own where streams wait: in the default one, backward's kernels would wait, too."""
        return contextlib.nullcontext() if self._device is None else torch.cuda.stream(side_stream("waits", self._device))

    def call_back(self) -> None:
        """Tells the future, after complete()."""
        self._finished.set()
        with self._lock:
            promise, self._promise = self._promise, None
        if promise is not None:
            promise.set_result(self._result)

    def submit(self) -> None:
        """Submits operations that are held back; complete() meets their errors again."""
        for operation in self._operations:
            if isinstance(operation, Held):
                with contextlib.suppress(Exception):
                    operation.submit()

    def complete(self) -> None:
        """Waits for the operations, and keeps their error."""
        error: Exception | None = None
        # Wait for all operations, also after a failure: none may use the tensors any more.
        for operation in list(self._operations):
            try:
                if self._device is None:
                    operation.wait()
                else:
                    operation.wait_in_stream(torch.cuda.current_stream(self._device).cuda_stream)  # type: ignore[attr-defined]
            except Exception as failure:
                error = error or failure
        with self._lock:
            if self._done:
                return
            if error is None and self._finish is not None:
                try:
                    with torch.no_grad():
                        self._finish()
                    _wait_for_copies(self._result)
                except Exception as failure:
                    error = failure
            self._error = error
            if error is not None and self.on_error is not None:
                self.on_error(error)
            self._finish = None
            if self._device is not None:
                self._in_streams = self._operations
            self._operations = []
            self._done = True


def _wait_for_copies(tensors: list[torch.Tensor]) -> None:
    """Waits for copies in this thread's stream, which the caller's stream is not ordered with."""
    for device in {tensor.device for tensor in tensors if tensor.is_cuda}:
        torch.cuda.current_stream(device).synchronize()


def _keep(work: Work) -> None:
    with _keeping:
        _kept.append(work)
        _with_tensors.append(work)
    for oldest in _take_ended(_with_tensors, _LAST_FEW):
        oldest._result, oldest._in_streams = [], []  # operations keep their tensors, too
    _take_ended(_kept, _MOST_KEPT)


def _take_ended(works: collections.deque[Work], most: int) -> list[Work]:
    """Takes the oldest works beyond `most` that have ended; those under way become the newest, so that none is in the way.

    It looks at two for each that is added: so there are never many more than `most` and twice those under way.
    """
    ended = []
    for _ in range(2):
        with _keeping:
            if len(works) <= most:
                break
            oldest = works.popleft()
        # Not under the lock: a work that ends here copies its results.
        if oldest.has_ended():
            ended.append(oldest)
        else:
            with _keeping:
                works.append(oldest)
    return ended


def forget() -> None:
    """Releases the works that are kept for C++."""
    with _keeping:
        _with_tensors.clear()
        _kept.clear()
