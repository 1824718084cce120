"""Training that goes on after a failure: state that is committed, restored, and made equal again.

What knows no framework; ``xoe.torch.elastic`` has the states of PyTorch.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from xoe import world as _world
from xoe.errors import HorovodInternalError, HostsUpdatedInterrupt
from xoe.objects import allgather_object, broadcast_object

Result = TypeVar("Result")

# Times in a row that a group breaks while it is formed.
_ATTEMPTS = 3


class State:
    """What a training must not lose. Subclasses say how it is saved, restored and made equal on all ranks."""

    def __init__(self) -> None:
        self._reset_callbacks: list[Callable[[], None]] = []
        self._shared = False  # whether it has been that of all ranks

    def register_reset_callbacks(self, callbacks: Iterable[Callable[[], None]]) -> None:
        """Functions to call after the group was formed anew: to adapt a learning rate, for example."""
        self._reset_callbacks.extend(callbacks)

    def on_reset(self) -> None:
        """Called after the group was formed anew, before state is made equal."""
        self.reset()
        for callback in self._reset_callbacks:
            callback()

    def commit(self) -> None:
        """Saves the state as the one to go back to. It is a copy: not after every batch of a large model."""
        self.save()
        self.check_host_updates()

    def check_host_updates(self) -> None:
        """Raises HostsUpdatedInterrupt where hosts have come or gone. So far hosts stay the same while a job runs."""

    def save(self) -> None:
        """Keeps a copy in memory."""
        raise NotImplementedError

    def restore(self) -> None:
        """Goes back to the last copy."""
        raise NotImplementedError

    def sync(self) -> None:
        """Takes over the state of rank 0, or where ranks were started anew that of the first rank that was not; collective."""
        raise NotImplementedError

    def _source(self) -> int:
        """The rank whose state all take over. Collective."""
        shared = allgather_object(self._shared, name="xoe.elastic.shared")
        self._shared = True
        return shared.index(True) if True in shared else 0

    def reset(self) -> None:
        """Adapts to another group of ranks."""


class ObjectState(State):
    """Plain objects, each an attribute by the name of its keyword; they are copied deeply."""

    def __init__(self, **values: Any) -> None:
        super().__init__()
        self._saved = values
        self._assign()

    def save(self) -> None:
        self._saved = {name: copy.deepcopy(getattr(self, name)) for name in self._saved}

    def restore(self) -> None:
        self._assign()

    def sync(self) -> None:
        self._take_over(self._source())

    def _take_over(self, source: int) -> None:
        if self._saved:
            current = {name: getattr(self, name) for name in self._saved}
            self._saved = broadcast_object(current, source)
            self._assign()

    def _assign(self) -> None:
        for name, value in self._saved.items():
            setattr(self, name, copy.deepcopy(value))


def run(function: Callable[..., Result]) -> Callable[..., Result]:
    """Decorates a training function whose first argument is a :class:`State`.

    Before it starts, the state becomes that of rank 0. When the group of ranks breaks (HorovodInternalError: a rank that died,
    a time limit, a connection that was cut), every rank goes back to its last commit, the group is formed again, and the
    function is called again. A rank that died is started anew by ``xoe run --restarts N``; without that the launcher ends
    the job.
    """

    @functools.wraps(function)
    def wrapper(state: State, *arguments: Any, **options: Any) -> Result:
        synchronize, broken, attempts = True, False, 0
        while True:
            try:
                if broken:
                    _world.form_again()
                    state.on_reset()
                    broken, attempts = False, 0
                if synchronize:
                    state.sync()
                return function(state, *arguments, **options)
            except HorovodInternalError as error:
                attempts += 1
                if broken and attempts > _ATTEMPTS:
                    raise
                _world.say(f"forming the group again: {error}")
                state.restore()
                synchronize = True
            except HostsUpdatedInterrupt as interrupt:
                synchronize = not interrupt.skip_sync
            broken = True

    return wrapper
