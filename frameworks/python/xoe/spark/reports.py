"""What Spark's tasks tell the driver while they run: that they began, lines of output, failures.

A connection begins with 32 random bytes of the driver. Then the task sends frames: 4 bytes of length, HMAC-SHA-256 over the
random bytes, the frame's number and the text, and the text, which is JSON. So only tasks of this job are heard, and no frame
can be left out, changed or sent again; the text is not encrypted.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import queue
import secrets
import socket
import struct
import threading
from typing import Any

_NONCE = 32
_MAC = hashlib.sha256().digest_size
_MOST = 1 << 28  # bytes of a frame
_MOST_UNKNOWN = 1 << 16  # bytes of the first frame, of a sender that has not proved anything
_HELLO_TIMEOUT = 60.0  # seconds


def _code(key: bytes, nonce: bytes, number: int, text: bytes) -> bytes:
    return hmac.new(key, nonce + struct.pack("!Q", number) + text, hashlib.sha256).digest()


def _receive(link: socket.socket, count: int) -> bytes:
    """So many bytes; raises ConnectionError where the connection ends before."""
    parts = bytearray()
    while len(parts) < count:
        part = link.recv(min(count - len(parts), 1 << 20))
        if not part:
            raise ConnectionError("the connection ended")
        parts += part
    return bytes(parts)


class Reporter:
    """A task's end. Thread-safe."""

    def __init__(self, address: str, port: int, key: bytes, timeout: float) -> None:
        self._key = key
        self._number = 0
        self._lock = threading.Lock()
        self._link = socket.create_connection((address, port), timeout)
        self._nonce = _receive(self._link, _NONCE)
        self._link.settimeout(None)

    @property
    def own_address(self) -> str:
        """The address of this host from which it reaches the driver."""
        return str(self._link.getsockname()[0])

    def send(self, kind: str, **values: Any) -> None:
        """Tells the driver. A driver that is gone is no error: this task ends with it."""
        text = json.dumps({"kind": kind, **values}).encode()
        with self._lock, contextlib.suppress(OSError):
            frame = struct.pack("!I", len(text)) + _code(self._key, self._nonce, self._number, text) + text
            self._number += 1
            self._link.sendall(frame)

    def wait_for_end(self) -> None:
        """Returns when the driver has closed the connection."""
        with contextlib.suppress(OSError):
            while self._link.recv(1):
                pass

    def close(self) -> None:
        """Ends the connection."""
        with contextlib.suppress(OSError):
            self._link.shutdown(socket.SHUT_RDWR)
        self._link.close()


class Reports:
    """The driver's end. ``events`` gets the messages, each with the ``link`` that it came from, and ``{"kind": "end"}`` for
    each connection that had said something."""

    def __init__(self, address: str, port: int, key: bytes) -> None:
        self.events: queue.Queue[dict[str, Any]] = queue.Queue()
        self._key = key
        self._server = socket.create_server((address, port))
        self._links: set[socket.socket] = set()
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, name="xoe-spark-reports", daemon=True).start()

    @property
    def port(self) -> int:
        """Where tasks connect."""
        return int(self._server.getsockname()[1])

    def close(self) -> None:
        """Ends all connections; tasks that still run end."""
        with self._lock:
            links, self._links = self._links, set()
        for one in (self._server, *links):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        number = 0
        while True:
            try:
                link, _ = self._server.accept()
            except OSError:
                return  # closed
            number += 1
            with self._lock:
                self._links.add(link)
            threading.Thread(target=self._listen, args=(link, number), daemon=True).start()

    def _listen(self, link: socket.socket, name: int) -> None:
        number = 0
        try:
            link.settimeout(_HELLO_TIMEOUT)
            nonce = secrets.token_bytes(_NONCE)
            link.sendall(nonce)
            while True:
                (size,) = struct.unpack("!I", _receive(link, 4))
                if size > (_MOST if number else _MOST_UNKNOWN):
                    return
                code = _receive(link, _MAC)
                text = _receive(link, size)
                if not hmac.compare_digest(code, _code(self._key, nonce, number, text)):
                    return
                link.settimeout(None)
                number += 1
                self.events.put({**json.loads(text), "link": name})
        except OSError:
            pass
        finally:
            with self._lock:
                self._links.discard(link)
            link.close()
            if number:
                self.events.put({"kind": "end", "link": name})
