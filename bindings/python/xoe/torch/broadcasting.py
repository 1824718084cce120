"""Broadcasting the state of models and optimizers."""

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

    Entries of a state_dict that are not tensors do not change. Collective: the same names, or the same order, on all ranks.
    """
    if isinstance(params, Mapping):
        named: list[tuple[str | None, Any]] = sorted(params.items())
    elif isinstance(params, torch.Tensor) or not isinstance(params, Iterable):
        raise ValueError(f"params is a {type(params).__name__}; pass model.state_dict() or model.named_parameters()")
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
    """Copies the optimizer's state on ``root_rank`` to all ranks: moments, steps, learning rates, all of its state_dict.

    Any optimizer, also one that has not stepped yet, on the root or elsewhere. ``model`` is ignored.
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


class _TensorSpec:
    """Shape and type of a tensor that was taken out of a state_dict."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.shape, self.dtype = tuple(tensor.shape), tensor.dtype


def _without_tensors(value: Any, tensors: list[torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        tensors.append(value.detach().cpu())  # ranks without state receive it on the CPU
        return _TensorSpec(value)
    if isinstance(value, dict):
        return {key: _without_tensors(item, tensors) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_without_tensors(item, tensors) for item in value)
    return value


def _with_tensors(value: Any, tensors: list[torch.Tensor]) -> Any:
    if isinstance(value, _TensorSpec):
        tensors.append(torch.empty(value.shape, dtype=value.dtype))
        return tensors[-1]
    if isinstance(value, dict):
        return {key: _with_tensors(item, tensors) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_with_tensors(item, tensors) for item in value)
    return value
