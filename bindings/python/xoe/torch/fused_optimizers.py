"""The optimizers of PyTorch that Xoe has a fused step for: their options and their state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import torch

from xoe import _core
from xoe.errors import UnsupportedError


class FusedOptimizer(Protocol):
    """One class of optimizer. ``names`` are those of PyTorch's state that are tensors of the parameter's shape."""

    names: tuple[str, ...]

    def begin(self, group: dict[str, Any], state: dict[str, Any], tensors: Sequence[torch.Tensor]) -> Any:
        """Brings the state of a parameter to this step, with ``tensors`` as its memory. Parameters for which it returns equal
        values are updated together."""

    def update(self, group: dict[str, Any], begun: Any, slices: list[_core.StepSlice]) -> None: ...


class _Sgd:
    names: tuple[str, ...] = ("momentum_buffer",)

    def begin(self, group: dict[str, Any], state: dict[str, Any], tensors: Sequence[torch.Tensor]) -> bool:
        if group["momentum"] == 0:
            return False
        first = state.get("momentum_buffer") is None
        state["momentum_buffer"] = tensors[0]
        return first

    def update(self, group: dict[str, Any], begun: bool, slices: list[_core.StepSlice]) -> None:
        _core.sgd_step(
            slices,
            learning_rate=float(group["lr"]),
            momentum=float(group["momentum"]),
            dampening=float(group["dampening"]),
            weight_decay=float(group["weight_decay"]),
            gradient_scale=1.0,
            nesterov=group["nesterov"],
            maximize=group["maximize"],
            first=begun,
        )


class _Adam:
    names: tuple[str, ...] = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")

    def __init__(self, decoupled: bool) -> None:
        self._decoupled = decoupled

    def begin(self, group: dict[str, Any], state: dict[str, Any], tensors: Sequence[torch.Tensor]) -> int:
        if not state:
            state["step"] = torch.tensor(0.0)
        names = self.names if group["amsgrad"] else self.names[:2]
        for name, tensor in zip(names, tensors, strict=False):
            state[name] = tensor
        state["step"] += 1
        return int(state["step"].item())

    def update(self, group: dict[str, Any], begun: int, slices: list[_core.StepSlice]) -> None:
        beta1, beta2 = group["betas"]
        _core.adam_step(
            slices,
            learning_rate=float(group["lr"]),
            beta1=float(beta1),
            beta2=float(beta2),
            epsilon=float(group["eps"]),
            weight_decay=float(group["weight_decay"]),
            gradient_scale=1.0,
            step=begun,
            decoupled=group.get("decoupled_weight_decay", self._decoupled),
            amsgrad=group["amsgrad"],
            maximize=group["maximize"],
        )


# Classes derived from these may do something else.
_KNOWN: dict[type, Callable[[], FusedOptimizer]] = {
    torch.optim.SGD: _Sgd,
    torch.optim.Adam: lambda: _Adam(decoupled=False),
    torch.optim.AdamW: lambda: _Adam(decoupled=True),
}
_REFUSED = ("capturable", "differentiable")


def fused_optimizer(optimizer: torch.optim.Optimizer) -> FusedOptimizer:
    """Raises UnsupportedError for a class or an option without a fused step."""
    made = _KNOWN.get(type(optimizer))
    if made is None:
        raise UnsupportedError(
            f"sharded: there is no fused step for {type(optimizer).__qualname__}; use torch.optim's SGD, Adam or AdamW, or"
            " sharded=False"
        )
    for group in optimizer.param_groups:
        for option in _REFUSED:
            if group.get(option):
                raise UnsupportedError(f"sharded: {option}=True is not supported; leave it out, or use sharded=False")
    return made()


def _shares(slices: list[_core.StepSlice], threads: int) -> Iterable[list[_core.StepSlice]]:
    count = min(threads, len(slices))
    return (slices[index::count] for index in range(count))


class GroupUpdate:
    """Runs updates with as many threads as PyTorch uses for its operations."""

    def __init__(self, fused: FusedOptimizer) -> None:
        self._fused = fused
        self._pool: ThreadPoolExecutor | None = None

    def run(self, group: dict[str, Any], by_begun: dict[Any, list[_core.StepSlice]]) -> None:
        threads = torch.get_num_threads()
        for begun, slices in by_begun.items():
            if threads == 1 or len(slices) < 2:
                self._fused.update(group, begun, slices)
                continue
            if self._pool is None:
                self._pool = ThreadPoolExecutor(threads - 1, "xoe-sharded")
            first, *others = _shares(slices, threads)
            running = [self._pool.submit(self._fused.update, group, begun, share) for share in others]
            self._fused.update(group, begun, first)
            for each in running:
                each.result()
