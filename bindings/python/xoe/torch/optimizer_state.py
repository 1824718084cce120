"""States of optimizers that PyTorch's ``load_state_dict`` cannot take."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

import torch

from xoe.torch.override import Wrapping


class _Boxed:
    """A value that ``load_state_dict`` leaves alone."""

    def __init__(self, value: Any) -> None:
        self.value = value


def load(optimizer: torch.optim.Optimizer, state_dict: dict[str, Any]) -> None:
    """``optimizer.load_state_dict(state_dict)``, for state of any type.

    PyTorch's rebuilds every iterable from a generator, which named tuples and strings do not survive.
    """
    own = type(optimizer._plain if isinstance(optimizer, Wrapping) else optimizer)
    if own.load_state_dict is not torch.optim.Optimizer.load_state_dict:
        return optimizer.load_state_dict(state_dict)
    state = {key: _box(values) if isinstance(values, dict) else values for key, values in state_dict["state"].items()}
    optimizer.load_state_dict({**state_dict, "state": state})
    for p, values in optimizer.state.items():
        for name, value in values.items() if isinstance(values, dict) else ():
            if isinstance(value, _Boxed):
                values[name] = _to(value.value, p.device)
    return None


def _box(values: dict[Any, Any]) -> dict[Any, Any]:
    return {name: value if _survives(value) else _Boxed(value) for name, value in values.items()}


def _survives(value: Any) -> bool:
    if isinstance(value, torch.Tensor) or not isinstance(value, Iterable):
        return True
    if isinstance(value, dict):
        return all(map(_survives, value.values()))
    return type(value) in (list, tuple) and all(map(_survives, value))


def _to(value: Any, device: torch.device) -> Any:
    """A copy with its tensors on the device."""
    if isinstance(value, torch.Tensor):
        return value.to(device, copy=True)
    if isinstance(value, dict):
        return type(value)((key, _to(item, device)) for key, item in value.items())
    if isinstance(value, tuple) and hasattr(value, "_make"):
        return value._make(_to(item, device) for item in value)
    if type(value) in (list, tuple):
        return type(value)(_to(item, device) for item in value)
    return copy.deepcopy(value)
