"""Models, optimizers and samplers as elastic state."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Sequence
from typing import Any

import torch

from xoe._elastic_parts import ElasticPart
from xoe.elastic import ObjectState
from xoe.errors import UnsupportedError
from xoe.ledger import Ledger
from xoe.objects import broadcast_object
from xoe.torch import optimizer_state
from xoe.torch.broadcasting import broadcast_optimizer_state, broadcast_parameters
from xoe.torch.elastic.sampler import ElasticSampler


class StateHandler:
    """How a value of one type is saved, restored and copied. It saves a copy when it is made."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def save(self) -> None:
        """Saves a copy in memory."""
        raise NotImplementedError

    def restore(self) -> None:
        """Restores the last copy."""
        raise NotImplementedError

    def sync(self, source: int = 0) -> None:
        """Copies the value of a rank to all ranks; a handler without this argument copies rank 0's. Collective."""
        raise NotImplementedError

    def set_value(self, value: Any) -> None:
        """Takes another value in its place."""
        self.value = value
        self.save()


class _DictHandler(StateHandler):
    """For what has a ``state_dict()``."""

    def __init__(self, value: Any) -> None:
        super().__init__(value)
        self._saved: Any = copy.deepcopy(value.state_dict())

    def save(self) -> None:
        self._saved = copy.deepcopy(self.value.state_dict())

    def restore(self) -> None:
        self.value.load_state_dict(copy.deepcopy(self._saved))


class ModelStateHandler(_DictHandler):
    """For models."""

    def sync(self, source: int = 0) -> None:
        broadcast_parameters(self.value.state_dict(), root_rank=source)


class OptimizerStateHandler(_DictHandler):
    """For optimizers."""

    def restore(self) -> None:
        optimizer_state.load(self.value, copy.deepcopy(self._saved))

    def sync(self, source: int = 0) -> None:
        broadcast_optimizer_state(self.value, root_rank=source)


class SamplerStateHandler(_DictHandler):
    """For samplers, data sets and ledgers."""

    def __init__(self, value: Any) -> None:
        if isinstance(value, ElasticPart):
            value.follow()
        super().__init__(value)

    def sync(self, source: int = 0) -> None:
        self.value.load_state_dict(broadcast_object(self.value.state_dict(), source))


Registry = Sequence[tuple[type, type[StateHandler]]]

_registry: Registry = [
    (torch.nn.Module, ModelStateHandler),
    (torch.optim.Optimizer, OptimizerStateHandler),
    (ElasticSampler, SamplerStateHandler),
    (ElasticPart, SamplerStateHandler),
]


def get_handler_registry() -> Registry:
    """Types, and the handlers of their values; the first that fits counts."""
    return _registry


def set_handler_registry(registry: Registry) -> None:
    """Sets what :func:`get_handler_registry` returns, for states that are made from now on."""
    global _registry
    _registry = registry


def _handler_of(value: Any) -> StateHandler | None:
    return next((handler(value) for kind, handler in _registry if isinstance(value, kind)), None)


class TorchState(ObjectState):
    """Any number of models, optimizers, samplers, data sets, ledgers and what else has a handler, under any names, and plain
    objects.

    For example::

        state = TorchState(model=model, optimizer=optimizer, epoch=0, batch=0)
    """

    def __init__(self, model: torch.nn.Module | None = None, optimizer: Any = None, **values: Any) -> None:
        values |= {"model": model, "optimizer": optimizer}
        found = {name: _handler_of(value) for name, value in values.items()}
        self._handlers = {name: handler for name, handler in found.items() if handler is not None}
        super().__init__(**{name: value for name, value in values.items() if name not in self._handlers})
        for name, handler in self._handlers.items():
            object.__setattr__(self, name, handler.value)

    def _ledgers(self) -> list[Ledger]:
        return [handler.value for handler in self._handlers.values() if isinstance(handler.value, Ledger)]

    def _keep(self) -> None:
        for handler in self._handlers.values():
            handler.save()
        super()._keep()

    def restore(self) -> None:
        for handler in self._handlers.values():
            handler.restore()
        super().restore()

    def _copy_from(self, source: int) -> None:
        for name, handler in self._handlers.items():
            _sync(name, handler, source)
        super()._copy_from(source)
        for handler in self._handlers.values():
            handler.save()

    def reset(self) -> None:
        super().reset()
        for handler in self._handlers.values():
            if isinstance(handler.value, (ElasticSampler, ElasticPart)):
                handler.value.reset()

    def __setattr__(self, name: str, value: Any) -> None:
        handler = self.__dict__.get("_handlers", {}).get(name)
        if handler is not None:
            handler.set_value(value)
        super().__setattr__(name, value)


def _sync(name: str, handler: StateHandler, source: int) -> None:
    if inspect.signature(handler.sync).parameters:
        handler.sync(source)
    elif source == 0:
        handler.sync()
    else:
        raise UnsupportedError(
            f"elastic state {name!r}: {type(handler).__name__}.sync() copies from rank 0, which has just joined; give sync() an"
            f" argument, the rank to copy from (it is {source} now)"
        )
