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

    PyTorch's rebuilds every iterable from a generator, which named tuples and strings do not survive, and gives floating-point
    tensors the type of their parameter.
    """
    state = state_dict["state"]
    own = type(optimizer._plain if isinstance(optimizer, Wrapping) else optimizer)
    if own.load_state_dict is torch.optim.Optimizer.load_state_dict:
        boxed = {key: _box(values) if isinstance(values, dict) else values for key, values in state.items()}
        optimizer.load_state_dict({**state_dict, "state": boxed})
        for p, values in optimizer.state.items():
            for name, value in values.items() if isinstance(values, dict) else ():
                if isinstance(value, _Boxed):
                    values[name] = _to(value.value, p.device)
    else:
        optimizer.load_state_dict(state_dict)
    saved = [key for group in state_dict["param_groups"] for key in group["params"]]
    for p, key in zip((p for group in optimizer.param_groups for p in group["params"]), saved, strict=False):
        if p in optimizer.state and key in state:
            optimizer.state[p] = _with_types(optimizer.state[p], state[key])


def _with_types(loaded: Any, given: Any) -> Any:
    """What was loaded, with those of the given tensors that have another type there."""
    if isinstance(loaded, torch.Tensor) and isinstance(given, torch.Tensor):
        same = loaded.dtype == given.dtype or loaded.shape != given.shape
        return loaded if same else given.to(loaded.device, copy=True)
    if isinstance(loaded, dict) and isinstance(given, dict):
        for name in loaded.keys() & given.keys():
            loaded[name] = _with_types(loaded[name], given[name])
    elif type(loaded) in (list, tuple) and type(given) is type(loaded) and len(loaded) == len(given):
        return type(loaded)(map(_with_types, loaded, given))
    return loaded


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
