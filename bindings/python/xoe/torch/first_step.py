"""What ranks forget before they train: compared in an optimizer's first step, and said in one warning."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from xoe import _core
from xoe import world as _world
from xoe.errors import InvalidArgumentError, UnsupportedError
from xoe.process_sets import ProcessSet
from xoe.torch.gradient import dense_alias
from xoe.torch.tensors import DTYPES

if TYPE_CHECKING:
    from xoe.torch.gradient import Gradient

VARIABLE = "XOE_CHECK_FIRST_STEP"
_LIMIT = 1 << 16  # of the values of a tensor that are compared
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class FirstStepWarning(UserWarning):
    """Ranks start from different parameters, or train on the same batches."""


def level_of_caller() -> int:
    """The ``stacklevel`` of a warning that shows the program's line: schedulers call ``step()`` in a frame of their own."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("torch", "xoe"):
        level, frame = level + 1, frame.f_back
    return level


class FirstStep:
    """The parameters and gradients of one rank in its first step, as sums of their bits, before gradients are reduced."""

    def __init__(self) -> None:
        self._sums: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
        self._wanted = os.environ.get(VARIABLE, "1").lower() not in ("0", "false", "off", "no")

    def note(self, gradient: Gradient) -> None:
        """Notes a parameter, and its gradient as this rank computed it."""
        grad = gradient.param.grad
        if not self._wanted:
            self._sums[gradient.name] = (_zero(), _zero())
            return
        self._sums[gradient.name] = (_bits(gradient.param), _zero() if grad is None else _bits(grad))

    def compare(self, prefix: str, process_set: ProcessSet) -> str | None:
        """Compares with the other ranks; gives back what the first of them should warn of. Collective, also where a rank does
        not want it.

        None, on all ranks: one has joined, whose first step is still to come. Compare again after the next step.
        """
        names = sorted(self._sums)
        if not names:
            return ""
        mine = torch.stack([self._sums[name][which].cpu() for which in (0, 1) for name in names])
        unwanted = torch.tensor([not self._wanted], dtype=torch.int64)
        # The largest and the smallest of each in one operation.
        largest = torch.cat([mine, -mine, unwanted])
        kind, op = _core.KINDS["allreduce"], _core.REDUCTIONS["max"]
        request = _core.Request(kind, op, process_set=process_set._need(), needs_all_ranks=True)
        try:
            operation = _world.current().engine.submit_tensor(f"{prefix}first_step", largest, DTYPES, request)
            operation.wait()  # type: ignore[union-attr]
        except UnsupportedError:
            return ""  # NCCL alone carries all data
        except InvalidArgumentError:
            return None  # or the ranks do not have the same parameters, which reducing them says better
        largest, unwanted = largest[:-1], largest[-1:]
        equal = (largest[: len(mine)] == -largest[len(mine) :]).tolist()
        if bool(unwanted):
            return ""  # a rank leaves it out
        count = len(names)
        no_gradient = not bool(mine[count:].any())
        found = _say(names, equal[:count], [False] if no_gradient else equal[count:])
        return f"{found} ({VARIABLE}=0 leaves this check out)" if found and process_set.rank() == 0 else ""


_PARAMETERS = (
    "ranks start from different parameters: {}. Call xoe.torch.broadcast_parameters(model.state_dict(), root_rank=0) before the"
    " first step, or give all ranks the same seed"
)
_BATCHES = (
    "all ranks computed the same gradients in the first step, as if on the same batch. Give each rank its part of the"
    " data, with torch.utils.data.DistributedSampler(data, xoe.size(), xoe.rank()), and a seed of its own if data are random"
)


def _say(names: Sequence[str], same_parameters: Sequence[bool], same_gradients: Sequence[bool]) -> str:
    other = [name.removeprefix("gradient.") for name, same in zip(names, same_parameters, strict=True) if not same]
    if other:
        return _PARAMETERS.format(", ".join(other[:3]) + (f" and {len(other) - 3} more" if len(other) > 3 else ""))
    return _BATCHES if all(same_gradients) else ""


def _zero() -> torch.Tensor:
    return torch.zeros((), dtype=torch.int64)


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    """The sum of a tensor's bits, read as whole numbers: it does not depend on the order of additions."""
    tensor = tensor.detach().resolve_conj().resolve_neg()
    if tensor.layout is not torch.strided or tensor.numel() == 0:
        return _zero()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    values = dense_alias(tensor).reshape(-1)[:_LIMIT]
    return values.view(_BITS[values.element_size()]).sum(dtype=torch.int64)
