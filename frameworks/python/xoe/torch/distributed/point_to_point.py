"""Send and receive of torch.distributed, over the messages of the group's engine."""

from __future__ import annotations

import hashlib
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from xoe.errors import InvalidArgumentError
from xoe.torch.distributed.initialize import operation_timeout

if TYPE_CHECKING:
    from xoe._core import Engine, Message, Messages

ANY_RANK = -1


class EngineMessages:
    """The messages of one engine, which its groups share: their tags differ."""

    def __init__(self, engine: Engine) -> None:
        from xoe._core import Messages

        self.messages: Messages = Messages(engine, "torch.distributed")
        self._groups: Counter[str] = Counter()

    def number_of(self, group: str) -> int:
        """How many groups of this name the engine has had before; its members all make them."""
        self._groups[group] += 1
        return self._groups[group]

    def forget(self, group: str) -> None:
        """There will be no further group of this name."""
        self._groups.pop(group, None)


_opened: WeakKeyDictionary[Engine, EngineMessages] = WeakKeyDictionary()


def messages_of(engine: Engine) -> EngineMessages:
    """Collective over the engine's ranks for the first time."""
    if engine not in _opened:
        _opened[engine] = EngineMessages(engine)
    return _opened[engine]


class PointToPoint:
    """Point-to-point messages within one group."""

    def __init__(self, engine: Engine, process_set: int, name: str, timeout: timedelta) -> None:
        shared = messages_of(engine)
        self._messages = shared.messages
        self._ranks = engine.process_set_ranks(process_set)
        self._name = f"{name}/{shared.number_of(name)}"
        self.set_timeout(timeout)

    def set_timeout(self, timeout: timedelta) -> None:
        """How long messages from now on may take."""
        self._timeout = operation_timeout(timeout)

    def send(self, tensor: Any, to: int, tag: int) -> Message:
        """Starts sending a dense tensor in host memory."""
        return self._messages.send(self._rank(to), self._tag(tag), tensor.data_ptr(), tensor.nbytes, self._timeout, tensor)

    def receive(self, tensor: Any, source: int, tag: int) -> Message:
        """Starts receiving into a dense tensor in host memory; source: a rank, or ``ANY_RANK``."""
        rank = source if source == ANY_RANK else self._rank(source)
        return self._messages.receive(rank, self._tag(tag), tensor.data_ptr(), tensor.nbytes, self._timeout, tensor)

    def source(self, message: Message) -> int:
        """The rank within the group that a received message came from; -1: none has been received."""
        rank = message.peer()
        return self._ranks.index(rank) if rank in self._ranks else -1

    def _rank(self, rank: int) -> int:
        if not 0 <= rank < len(self._ranks):
            raise InvalidArgumentError(f"there is no rank {rank} in a group of {len(self._ranks)}")
        return self._ranks[rank]

    def _tag(self, tag: int) -> int:
        text = f"{self._name}/{tag}".encode()
        return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")
