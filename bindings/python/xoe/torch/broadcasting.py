"""Models and optimizers made equal on all ranks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch

from xoe.objects import broadcast_object
from xoe.process_sets import ProcessSet, global_process_set
from xoe.torch.collectives import broadcast_async_


def broadcast_parameters(
    params: Mapping[str, Any] | Iterable[tuple[str, torch.Tensor]] | Iterable[torch.Tensor],
    root_rank: int = 0,
    process_set: ProcessSet = global_process_set,
) -> None:
    """Overwrites parameters with those of ``root_rank``: ``model.state_dict()``, ``named_parameters()`` or ``parameters()``.

    What is no tensor in a state_dict is left alone. Collective: the same names, or the same order, on all ranks.
    """
    if isinstance(params, Mapping):
        named: list[tuple[str | None, Any]] = sorted(params.items())
    elif isinstance(params, torch.Tensor) or not isinstance(params, Iterable):
        raise ValueError(f"params is a {type(params).__name__}; give model.state_dict() or model.named_parameters()")
    else:
        named = [param if isinstance(param, tuple) else (None, param) for param in params]
    tensors = [(name, param) for name, param in named if isinstance(param, torch.Tensor)]
    handles = [
        broadcast_async_(tensor.data, root_rank, None if name is None else f"broadcast.{name}", process_set)
        for name, tensor in tensors
    ]
    for handle in handles:
        handle.wait()


def broadcast_optimizer_state(
    optimizer: torch.optim.Optimizer,
    root_rank: int = 0,
    model: torch.nn.Module | None = None,
    process_set: ProcessSet = global_process_set,
) -> None:
    """Gives the optimizer the state of ``root_rank``'s: moments, steps, learning rates, all that its state_dict holds.

    Any optimizer, also one that has not stepped yet, on the root or elsewhere. ``model`` is not needed.
    """
    del model
    state = optimizer.state_dict()
    tensors: list[torch.Tensor] = []
    structure = broadcast_object(_without_tensors(state, tensors), root_rank, None, process_set)
    received: list[torch.Tensor] = []
    filled = _with_tensors(structure, received)
    if process_set.root(root_rank) == process_set.rank():
        received = tensors
    handles = [broadcast_async_(tensor, root_rank, None, process_set) for tensor in received]
    for handle in handles:
        handle.wait()
    if process_set.root(root_rank) != process_set.rank():
        optimizer.load_state_dict(filled)


class _Place:
    """Where a tensor stood in a state_dict."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.shape, self.dtype = tuple(tensor.shape), tensor.dtype


def _without_tensors(value: Any, tensors: list[torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        tensors.append(value.detach().cpu())  # where those who have no state yet receive it
        return _Place(value)
    if isinstance(value, dict):
        return {key: _without_tensors(item, tensors) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_without_tensors(item, tensors) for item in value)
    return value


def _with_tensors(value: Any, tensors: list[torch.Tensor]) -> Any:
    if isinstance(value, _Place):
        tensors.append(torch.empty(value.shape, dtype=value.dtype))
        return tensors[-1]
    if isinstance(value, dict):
        return {key: _with_tensors(item, tensors) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_with_tensors(item, tensors) for item in value)
    return value
