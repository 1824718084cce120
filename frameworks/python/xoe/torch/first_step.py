"""What ranks forget before they train with PyTorch: see :mod:`xoe.first_step`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from xoe.errors import FirstStepWarning as FirstStepWarning
from xoe.first_step import LIMIT, Advice, compare, is_wanted
from xoe.first_step import warn as warn
from xoe.process_sets import ProcessSet
from xoe.torch.gradient import dense_alias

if TYPE_CHECKING:
    from xoe.torch.gradient import Gradient

_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
BROADCAST = "Call xoe.torch.broadcast_parameters(model.state_dict(), root_rank=0) before the first step"
PART = "with torch.utils.data.DistributedSampler(data, xoe.size(), xoe.rank())"


class FirstStep:
    """The parameters and gradients of one rank in its first step, as sums of their bits, before gradients are reduced."""

    def __init__(self) -> None:
        self._sums: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
        self._wanted = is_wanted()

    def note(self, gradient: Gradient) -> None:
        """Notes a parameter, and its gradient as this rank computed it."""
        grad = gradient.param.grad
        if not self._wanted:
            self._sums[gradient.name] = (_zero(), _zero())
            return
        self._sums[gradient.name] = (bits(gradient.param), _zero() if grad is None else bits(grad))

    def compare(self, prefix: str, process_set: ProcessSet) -> str | None:
        """As :func:`xoe.first_step.compare`."""
        names = sorted(self._sums)
        if not names:
            return ""
        parameters, gradients = ([int(self._sums[name][which]) for name in names] for which in (0, 1))
        return compare(names, [parameters], gradients, self._wanted, Advice(prefix, BROADCAST, PART), process_set)


def _zero() -> torch.Tensor:
    return torch.zeros((), dtype=torch.int64)


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """The sum of a tensor's bits, read as whole numbers: it does not depend on the order of additions."""
    tensor = tensor.detach().resolve_conj().resolve_neg()
    if tensor.layout is not torch.strided or tensor.numel() == 0:
        return _zero()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    values = dense_alias(tensor).reshape(-1)[:LIMIT]
    return values.view(_BITS[values.element_size()]).sum(dtype=torch.int64)
