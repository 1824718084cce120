"""Which gradients any rank has in a step: those that no rank has stay None, as in one process."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from xoe.process_sets import ProcessSet
from xoe.reduction import Max
from xoe.torch.collectives import allreduce_async_
from xoe.torch.gradient import Gradient


class Presence:
    """The gradients of one step that any rank has, and whether any rank abandons the step. All ranks make one together, before
    they submit what they lack.
    """

    def __init__(self, gradients: Sequence[Gradient], abandons: bool, prefix: str, process_set: ProcessSet) -> None:
        self._gradients = gradients
        self._own = [_kind(gradient) for gradient in gradients]
        flags = torch.tensor([*self._own, abandons], dtype=torch.uint8)
        self._handle = allreduce_async_(flags, None, f"{prefix}presence", Max, process_set=process_set)
        self._all: dict[Gradient, int] | None = None
        self._abandoned = False

    def wait(self) -> dict[Gradient, int]:
        """Blocks until all ranks have made theirs. Gives each gradient's kind: that of :func:`_kind`, of any rank."""
        if self._all is None:
            *kinds, abandoned = self._handle.wait().tolist()
            self._abandoned = bool(abandoned)
            self._all = dict(zip(self._gradients, kinds, strict=True))
        return self._all

    @property
    def abandoned(self) -> bool:
        """Whether any rank abandons the step. Blocks, as :meth:`wait` does."""
        self.wait()
        return self._abandoned

    def unused(self) -> Sequence[Gradient]:
        """Those that no rank has. Blocks, as :meth:`wait` does."""
        return [gradient for gradient, kind in self.wait().items() if kind == 0]

    def fill(self, gradients: Sequence[Gradient]) -> bool:
        """Prepares missing gradients, which count as zeros: sparse ones where other ranks' are sparse. False: no rank has any
        of them, so that there is nothing to reduce."""
        if all(gradient.param.grad is not None for gradient in gradients):
            return True
        kinds = self.wait()
        for gradient in gradients:
            if gradient.param.grad is None and kinds[gradient] > 1:
                gradient.param.grad = _no_entries(gradient.param, kinds[gradient] - 1)
        return any(kinds[gradient] > 0 for gradient in gradients)


def _kind(gradient: Gradient) -> int:
    """0: none. 1: a dense gradient. More: one more than the number of a sparse gradient's dimensions that have indices."""
    grad = gradient.param.grad
    if grad is None:
        return int(gradient.in_flight)
    return 1 + grad.sparse_dim() if grad.is_sparse else 1


def _no_entries(param: torch.Tensor, sparse_dims: int) -> torch.Tensor:
    """A sparse gradient of zeros."""
    indices = torch.empty((sparse_dims, 0), dtype=torch.int64, device=param.device)
    values = torch.empty((0, *param.shape[sparse_dims:]), dtype=param.dtype, device=param.device)
    return torch.sparse_coo_tensor(indices, values, param.shape, check_invariants=False).coalesce()
