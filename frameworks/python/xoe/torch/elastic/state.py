"""Models, optimizers and samplers as elastic state."""

from __future__ import annotations

import copy
from typing import Any

import torch

from xoe._collective import barrier
from xoe.elastic import ObjectState
from xoe.ledger import Ledger
from xoe.objects import broadcast_object
from xoe.torch import optimizer_state
from xoe.torch.broadcasting import broadcast_optimizer_state, broadcast_parameters
from xoe.torch.elastic.sampler import ElasticSampler

_Kept = (torch.nn.Module, torch.optim.Optimizer, ElasticSampler, Ledger)


class TorchState(ObjectState):
    """Any number of models, optimizers, samplers and ledgers, under any names, and plain objects.

    For example::

        state = TorchState(model=model, optimizer=optimizer, epoch=0, batch=0)
    """

    def __init__(self, model: torch.nn.Module | None = None, optimizer: Any = None, **values: Any) -> None:
        if model is not None:
            values["model"] = model
        if optimizer is not None:
            values["optimizer"] = optimizer
        kept = {name: value for name, value in values.items() if isinstance(value, _Kept)}
        self._kept: dict[str, Any] = kept
        super().__init__(**{name: value for name, value in values.items() if name not in kept})
        for name, value in kept.items():
            object.__setattr__(self, name, value)
        self._copies: dict[str, Any] = {}
        self._copy()

    def _copy(self) -> None:
        self._copies = {name: copy.deepcopy(value.state_dict()) for name, value in self._kept.items()}

    def save(self) -> None:
        ledgers = [value for value in self._kept.values() if isinstance(value, Ledger)]
        if ledgers:
            # What one rank commits, all have noted; where one could not, nothing is committed here either.
            barrier()
        self._copy()
        super().save()
        for ledger in ledgers:
            ledger.commit()

    def restore(self) -> None:
        for name, value in self._kept.items():
            saved = copy.deepcopy(self._copies[name])
            if isinstance(value, torch.optim.Optimizer):
                optimizer_state.load(value, saved)
            else:
                value.load_state_dict(saved)
        super().restore()

    def _copy_from(self, source: int) -> None:
        for value in self._kept.values():
            if isinstance(value, torch.nn.Module):
                broadcast_parameters(value.state_dict(), root_rank=source)
            elif isinstance(value, torch.optim.Optimizer):
                broadcast_optimizer_state(value, root_rank=source)
            else:
                value.load_state_dict(broadcast_object(value.state_dict(), source))
        super()._copy_from(source)
        self._copy()

    def reset(self) -> None:
        for value in self._kept.values():
            if isinstance(value, (ElasticSampler, Ledger)):
                value.reset()

    def __setattr__(self, name: str, value: Any) -> None:
        kept = self.__dict__.get("_kept", {})
        if name in kept:
            kept[name] = value
            self._copies[name] = copy.deepcopy(value.state_dict())
        super().__setattr__(name, value)
