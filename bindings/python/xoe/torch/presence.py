"""Which gradients any rank has: those that no rank has stay None, as in one process."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from xoe.process_sets import ProcessSet
from xoe.reduction import Max
from xoe.torch.collectives import allreduce_async_
from xoe.torch.gradient import Gradient


class Presence:
    """The gradients of one step that this rank has, noted before those that it lacks are submitted as zeros."""

    def __init__(self, gradients: Sequence[Gradient]) -> None:
        self._gradients = gradients
        self._flags = torch.tensor(
            [gradient.in_flight or gradient.param.grad is not None for gradient in gradients], dtype=torch.uint8
        )

    def unused(self, prefix: str, process_set: ProcessSet) -> Sequence[Gradient]:
        """Those that no rank has. All ranks ask together, and wait for each other."""
        allreduce_async_(self._flags, None, f"{prefix}presence", Max, process_set=process_set).wait()
        return [gradient for gradient, used in zip(self._gradients, self._flags.tolist(), strict=True) if not used]
