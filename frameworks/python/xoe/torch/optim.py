"""Optimizers for large batches, which scale the step of each layer: LARS and LAMB."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from xoe import _core
from xoe.errors import InvalidArgumentError, UnsupportedError
from xoe.torch.fused_optimizers import KNOWN, FusedAdam, FusedSgd, Norms
from xoe.torch.fused_step import FusedStep


class _FusedLars(FusedSgd):
    def norms(self, group: dict[str, Any], begun: bool, slices: list[_core.StepSlice]) -> Norms:
        return _core.lars_norms(slices, self.options(group, begun))

    def trust(self, group: dict[str, Any], norms: Norms) -> float:
        if not group["layerwise"]:
            return 1.0
        return _core.lars_trust(self.options(group, False), *norms, group["trust_coefficient"], group["eps"])


class _FusedLamb(FusedAdam):
    names: tuple[str, ...] = ("exp_avg", "exp_avg_sq")

    def __init__(self) -> None:
        super().__init__(decoupled=False)

    def norms(self, group: dict[str, Any], begun: int, slices: list[_core.StepSlice]) -> Norms:
        return _core.lamb_moments(slices, self.options(group, begun))

    def trust(self, group: dict[str, Any], norms: Norms) -> float:
        return _core.lamb_trust(*norms) if group["layerwise"] else 1.0

    def update(self, group: dict[str, Any], begun: int, trust: float, slices: list[_core.StepSlice]) -> None:
        _core.lamb_apply(slices, self.options(group, begun), trust)


class _Layerwise(torch.optim.Optimizer):
    """One pass over memory for float32 parameters of the host that are dense; PyTorch's operations for all others."""

    _fused_step: FusedStep | None = None

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates the parameters that have a gradient. With a closure, which computes the loss again, returns the loss."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        if self._fused_step is None:
            self._fused_step = FusedStep(KNOWN[self._known()]())
        for group in self.param_groups:
            if any(p.grad is not None and p.grad.layout is not torch.strided for p in group["params"]):
                raise UnsupportedError("a gradient is sparse; make its module dense (Embedding: sparse=False)")
            for p, begun in self._fused_step.run(group, self.state):
                self._step_alone(group, p, begun)
        return loss

    def _known(self) -> type:
        """The class of this module that this one is, or is made from."""
        return next(base for base in type(self).__mro__ if base in KNOWN)

    def _step_alone(self, group: dict[str, Any], p: torch.Tensor, begun: Any) -> None:
        raise NotImplementedError


class LARS(_Layerwise):
    """Stochastic gradient descent as ``torch.optim.SGD``, of which gradient and weight decay of each parameter are multiplied
    by ``trust_coefficient * |p| / (|g| + weight_decay * |p| + eps)``, or by 1 where a norm is 0 (You, Gitman, Ginsburg: "Large
    Batch Training of Convolutional Networks", 2017).

    Parameters that are usually left out, such as biases and those of batch norm, belong into a group with ``layerwise=False``.
    Alone, in a :func:`DistributedOptimizer`, and sharded: norms are those of whole parameters and of reduced gradients.
    """

    def __init__(
        self,
        params: Any,
        lr: float,
        momentum: float = 0.9,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        *,
        trust_coefficient: float = 0.001,
        eps: float = 1e-8,
        layerwise: bool = True,
        maximize: bool = False,
    ) -> None:
        _check_not_negative(lr=lr, momentum=momentum, weight_decay=weight_decay, trust_coefficient=trust_coefficient, eps=eps)
        if nesterov and (momentum == 0 or dampening != 0):
            raise InvalidArgumentError("LARS: nesterov needs a momentum, and no dampening")
        options = {"lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay, "nesterov": nesterov}
        layers = {"trust_coefficient": trust_coefficient, "eps": eps, "layerwise": layerwise}
        super().__init__(params, {**options, **layers, "maximize": maximize})

    def _step_alone(self, group: dict[str, Any], p: torch.Tensor, begun: bool) -> None:
        gradient = _gradient(group, p)
        trust = 1.0
        if group["layerwise"]:
            size, slope = p.norm().item(), gradient.norm().item()
            if size > 0 and slope > 0:
                trust = group["trust_coefficient"] * size / (slope + group["weight_decay"] * size + group["eps"])
        update = gradient.add(p, alpha=group["weight_decay"]).mul_(trust)
        if group["momentum"] != 0:
            buffer = self.state[p]["momentum_buffer"]
            if begun:
                buffer.copy_(update)
            else:
                buffer.mul_(group["momentum"]).add_(update, alpha=1 - group["dampening"])
            update = update.add_(buffer, alpha=group["momentum"]) if group["nesterov"] else buffer
        p.add_(update, alpha=-float(group["lr"]))


class LAMB(_Layerwise):
    """Adam, of which the update of each parameter, weight decay included, is multiplied by ``|p| / |update|``, or by 1 where a
    norm is 0 (You et al.: "Large Batch Optimization for Deep Learning: Training BERT in 76 minutes", 2020).

    Groups with ``layerwise=False``, and use with other ranks: as :class:`LARS`.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        *,
        layerwise: bool = True,
        maximize: bool = False,
    ) -> None:
        _check_not_negative(lr=lr, eps=eps, weight_decay=weight_decay)
        if not all(0 <= beta < 1 for beta in betas):
            raise InvalidArgumentError(f"LAMB: betas are {betas}; each must be at least 0 and less than 1")
        options = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, {**options, "layerwise": layerwise, "maximize": maximize})

    def _step_alone(self, group: dict[str, Any], p: torch.Tensor, begun: int) -> None:
        gradient = _gradient(group, p)
        beta1, beta2 = group["betas"]
        state = self.state[p]
        mean, square = state["exp_avg"], state["exp_avg_sq"]
        mean.lerp_(gradient, 1 - beta1)
        square.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        update = (mean / (1 - beta1**begun)).div_((square / (1 - beta2**begun)).sqrt_().add_(group["eps"]))
        update.add_(p, alpha=group["weight_decay"])
        trust = 1.0
        if group["layerwise"]:
            size, length = p.norm().item(), update.norm().item()
            trust = size / length if size > 0 and length > 0 else 1.0
        p.add_(update, alpha=-float(group["lr"]) * trust)


KNOWN[LARS] = _FusedLars
KNOWN[LAMB] = _FusedLamb


def _check_not_negative(**values: float) -> None:
    for name, value in values.items():
        if not value >= 0:
            raise InvalidArgumentError(f"{name} is {value}, and must be at least 0")


def _gradient(group: dict[str, Any], p: torch.Tensor) -> torch.Tensor:
    gradient: torch.Tensor = p.grad  # type: ignore[assignment]
    return -gradient if group["maximize"] else gradient
