"""Authentication of pickled objects: loading one runs what it says, so nothing is loaded that no rank of this world sent."""

from __future__ import annotations

import hashlib
import hmac
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from xoe.errors import DataLossError

if TYPE_CHECKING:
    from xoe._core import Operation

_BYTES = hashlib.sha256().digest_size
Submitted = TypeVar("Submitted")


class Signer:
    """Signs the objects of one world: HMAC-SHA-256 with the world's key, another one after every init.

    A signature holds for one object of one sender, for one call: that of its kind, name, ranks and place in order. ``group``:
    the ranks of the job that this world consists of; empty: all.
    """

    def __init__(self, key: bytes, group: Sequence[int] = ()) -> None:
        self._key = key
        self._group = tuple(group)
        self._lock = threading.Lock()
        self._calls: Counter[bytes] = Counter()  # by a digest: programs use some names once only

    def submit(self, kind: str, name: str, ranks: Sequence[int], send: Callable[[Call], Submitted]) -> tuple[Call, Submitted]:
        """Calls ``send`` with the call of this kind, name and ranks that is next. One that raises does not count."""
        what = (kind, name, tuple(ranks))
        which = hashlib.blake2b(repr(what).encode(), digest_size=8).digest()

        def take_back() -> None:
            with self._lock:
                self._calls[which] -= 1

        with self._lock:
            call = Call(self._key, f"{kind} {name!r}", repr((*what, self._calls[which], self._group)), take_back)
            submitted = send(call)
            self._calls[which] += 1
        return call, submitted


class Call:
    """One call in which ranks send each other objects."""

    def __init__(self, key: bytes, title: str, text: str, take_back: Callable[[], None] = lambda: None) -> None:
        self._key = key
        self._title = title
        self._text = text
        self._take_back = take_back

    def wait(self, operation: Operation) -> None:
        """Waits for the call's operation. One that fails does not count: ranks that had joined know nothing of it."""
        try:
            operation.wait()
        except BaseException:
            self._take_back()
            raise

    def sign(self, sender: int, data: bytes) -> bytes:
        """The bytes to send: the signature, and the data of ``sender``."""
        return b"".join((self._signature_of(sender, data), data))

    def verify(self, sender: int, message: memoryview) -> memoryview:
        """The data that ``sender`` signed for this call. Raises DataLossError if it did not."""
        data = message[_BYTES:]
        if len(message) < _BYTES or not hmac.compare_digest(self._signature_of(sender, data), message[:_BYTES]):
            raise DataLossError(
                f"{self._title}: the object from rank {sender} is not what that rank sent: the network between the ranks"
                " changed it, or a program sends tensors under this name; nothing was loaded"
            )
        return data

    def _signature_of(self, sender: int, data: bytes | memoryview) -> bytes:
        code = hmac.new(self._key, f"{self._text} from {sender}\n".encode(), hashlib.sha256)
        code.update(data)
        return code.digest()
