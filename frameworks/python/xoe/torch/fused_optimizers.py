"""The optimizers that Xoe has a fused step for: their options and their state."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Protocol, runtime_checkable

import torch

from xoe import _core
from xoe.errors import UnsupportedError

Norms = tuple[float, float]  # sums of squares: of a parameter, and of its gradient or update


class FusedOptimizer(Protocol):
    """One class of optimizer. ``names`` are those of PyTorch's state that are tensors of the parameter's shape."""

    names: tuple[str, ...]

    def used_names(self, group: dict[str, Any]) -> tuple[str, ...]:
        """Those that the options of this group need."""

    def begin(self, group: dict[str, Any], state: dict[str, Any], tensors: Sequence[torch.Tensor]) -> Any:
        """Brings the state of a parameter to this step, with ``tensors`` as its memory. Parameters for which it returns equal
        values, and which have the same trust, are updated together."""

    def update(self, group: dict[str, Any], begun: Any, trust: float, slices: list[_core.StepSlice]) -> None: ...


@runtime_checkable
class LayerwiseOptimizer(FusedOptimizer, Protocol):
    """Its update depends on norms of a whole parameter."""

    def norms(self, group: dict[str, Any], begun: Any, slices: list[_core.StepSlice]) -> Norms:
        """Called once before each update. Those of all slices of a parameter, of all ranks, are added up."""

    def trust(self, group: dict[str, Any], norms: Norms) -> float: ...


class FusedSgd:
    names: tuple[str, ...] = ("momentum_buffer",)

    def used_names(self, group: dict[str, Any]) -> tuple[str, ...]:
        return self.names if group["momentum"] != 0 else ()

    def begin(self, group: dict[str, Any], state: dict[str, Any], tensors: Sequence[torch.Tensor]) -> bool:
        if not self.used_names(group):
            return False
        first = state.get("momentum_buffer") is None
        state["momentum_buffer"] = tensors[0]
        return first

    def options(self, group: dict[str, Any], begun: bool, trust: float = 1.0) -> _core.SgdOptions:
        return _core.SgdOptions(
            learning_rate=float(group["lr"]),
            momentum=float(group["momentum"]),
            dampening=float(group["dampening"]),
            weight_decay=float(group["weight_decay"]),
            nesterov=group["nesterov"],
            maximize=group["maximize"],
            first=begun,
            trust=trust,
        )

    def update(self, group: dict[str, Any], begun: bool, trust: float, slices: list[_core.StepSlice]) -> None:
        _core.sgd_step(slices, self.options(group, begun, trust))


class FusedAdam:
    names: tuple[str, ...] = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")

    def __init__(self, decoupled: bool) -> None:
        self._decoupled = decoupled

    def used_names(self, group: dict[str, Any]) -> tuple[str, ...]:
        return self.names if group.get("amsgrad") else self.names[:2]

    def begin(self, group: dict[str, Any], state: dict[str, Any], tensors: Sequence[torch.Tensor]) -> int:
        if not state:
            state["step"] = torch.tensor(0.0)
        for name, tensor in zip(self.used_names(group), tensors, strict=False):
            state[name] = tensor
        state["step"] += 1
        return int(state["step"].item())

    def options(self, group: dict[str, Any], begun: int) -> _core.AdamOptions:
        beta1, beta2 = group["betas"]
        return _core.AdamOptions(
            learning_rate=float(group["lr"]),
            beta1=float(beta1),
            beta2=float(beta2),
            epsilon=float(group["eps"]),
            weight_decay=float(group["weight_decay"]),
            step=begun,
            decoupled=group.get("decoupled_weight_decay", self._decoupled),
            maximize=group["maximize"],
        )

    def update(self, group: dict[str, Any], begun: int, trust: float, slices: list[_core.StepSlice]) -> None:
        _core.adam_step(slices, self.options(group, begun), group["amsgrad"])


# Classes derived from these may do something else.
KNOWN: dict[type, Callable[[], FusedOptimizer]] = {
    torch.optim.SGD: FusedSgd,
    torch.optim.Adam: lambda: FusedAdam(decoupled=False),
    torch.optim.AdamW: lambda: FusedAdam(decoupled=True),
}
_REFUSED = ("capturable", "differentiable")


def fused_optimizer(optimizer: torch.optim.Optimizer) -> FusedOptimizer:
    """Raises UnsupportedError for a class or an option without a fused step."""
    made = KNOWN.get(type(optimizer))
    if made is None:
        raise UnsupportedError(
            f"sharded: there is no fused step for {type(optimizer).__qualname__}; use torch.optim's SGD, Adam or AdamW,"
            " xoe.torch.optim's LARS or LAMB, or sharded=False"
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

    def run(
        self,
        group: dict[str, Any],
        parameters: Sequence[tuple[Any, list[_core.StepSlice]]],
        add_up: Callable[[list[Norms]], list[Norms]] = list,
    ) -> None:
        """parameters: what begin() returned for each, and its slices. add_up: adds the norms of this rank's slices to those of
        the other ranks'."""
        trusts = [1.0] * len(parameters)
        fused = self._fused
        if isinstance(fused, LayerwiseOptimizer) and parameters:
            norms = add_up([self._norms(fused, group, begun, slices) for begun, slices in parameters])
            trusts = [fused.trust(group, one) for one in norms]
        together: defaultdict[Any, list[_core.StepSlice]] = defaultdict(list)
        for (begun, slices), trust in zip(parameters, trusts, strict=True):
            together[begun, trust].extend(slices)
        for (begun, trust), slices in together.items():
            self._each(partial(fused.update, group, begun, trust), slices)

    def _norms(self, fused: LayerwiseOptimizer, group: dict[str, Any], begun: Any, slices: list[_core.StepSlice]) -> Norms:
        parts = self._each(partial(fused.norms, group, begun), slices)
        return sum(part[0] for part in parts), sum(part[1] for part in parts)

    def _each(self, call: Callable[[list[_core.StepSlice]], Any], slices: list[_core.StepSlice]) -> list[Any]:
        threads = torch.get_num_threads()
        if threads == 1 or len(slices) < 2:
            return [call(slices)]
        if self._pool is None:
            self._pool = ThreadPoolExecutor(threads - 1, "xoe-sharded")
        first, *others = _shares(slices, threads)
        running = [self._pool.submit(call, share) for share in others]
        return [call(first), *(each.result() for each in running)]
