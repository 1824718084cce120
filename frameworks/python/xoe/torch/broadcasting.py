"""Broadcasting the state of models and optimizers."""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from xoe.errors import InvalidArgumentError
from xoe.objects import broadcast_object
from xoe.process_sets import ProcessSet, global_process_set
from xoe.torch import optimizer_state
from xoe.torch.collectives import broadcast_async_
from xoe.torch.tensors import engine_type, need_tensors


def broadcast_parameters(
    params: Mapping[str, Any] | Iterable[tuple[str, torch.Tensor]] | Iterable[torch.Tensor],
    root_rank: int = 0,
    process_set: ProcessSet = global_process_set,
) -> None:
    """Overwrites parameters with those of ``root_rank``: ``model.state_dict()``, ``named_parameters()`` or ``parameters()``.

    Entries of a state_dict that are not tensors do not change, but NumPy arrays and lists elsewhere are errors. Collective: the
    same names, or the same order, on all ranks.
    """
    if isinstance(params, Mapping):
        named: list[tuple[str | None, Any]] = sorted(params.items())
    elif isinstance(params, torch.Tensor) or not isinstance(params, Iterable):
        raise InvalidArgumentError(f"params is a {type(params).__name__}; pass model.state_dict() or model.named_parameters()")
    else:
        named = [param if isinstance(param, tuple) else (None, param) for param in params]
        need_tensors(param for _, param in named)
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

    Any optimizer, also one that has not stepped yet, on the root or elsewhere. Where the root's has not, parameters without
    gradients get zeros, as in Horovod. model: its sparse embeddings get sparse zeros.
    """
    is_root = process_set.root(root_rank) == process_set.rank()
    tensors: list[torch.Tensor] = []
    state = optimizer.state_dict()
    sent = (not state["state"], _pickle(state, tensors)) if is_root else None
    is_fresh, structure = broadcast_object(sent, root_rank, None, process_set)
    unpickler = _Unpickler(structure)
    filled: dict[str, Any] = {} if is_root else unpickler.load()
    handles = [broadcast_async_(tensor, root_rank, None, process_set) for tensor in (tensors if is_root else unpickler.tensors)]
    for handle in handles:
        handle.wait()
    if not is_root:
        optimizer_state.load(optimizer, filled)
    if is_fresh:
        _give_zeros(optimizer, model)


def _give_zeros(optimizer: torch.optim.Optimizer, model: torch.nn.Module | None) -> None:
    modules = [] if model is None else model.modules()
    sparse = {id(module.weight) for module in modules if isinstance(module, torch.nn.Embedding) and module.sparse}
    for group in optimizer.param_groups:
        for p in group["params"]:
            if p.requires_grad and p.grad is None:
                zeros = torch.zeros_like(p, requires_grad=False)
                p.grad = zeros.to_sparse(1) if isinstance(optimizer, torch.optim.SparseAdam) or id(p) in sparse else zeros


def _pickle(state: dict[str, Any], tensors: list[torch.Tensor]) -> bytes:
    """The state without its tensors, which are appended to ``tensors``. Works for any structure that can be pickled."""
    import cloudpickle

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        def persistent_id(self, value: Any) -> Any:
            if type(value) not in (torch.Tensor, torch.nn.Parameter) or value.layout is not torch.strided:
                return None
            if value.device.type == "meta" or engine_type(value.dtype) is None:
                return None
            tensors.append(value.detach().cpu())  # ranks without state receive it on the CPU
            return tuple(value.shape), value.dtype

    data = io.BytesIO()
    Pickler(data).dump(state)
    return data.getvalue()


class _Unpickler(pickle.Unpickler):
    """Puts empty tensors where :func:`_pickle` took them out."""

    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data))
        self.tensors: list[torch.Tensor] = []

    def persistent_load(self, spec: tuple[tuple[int, ...], torch.dtype]) -> torch.Tensor:
        self.tensors.append(torch.empty(spec[0], dtype=spec[1]))
        return self.tensors[-1]
