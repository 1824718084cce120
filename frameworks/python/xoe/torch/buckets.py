"""Gradients of an optimizer in buckets of shared memory, which the engine reduces where they stand."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from xoe import _core
from xoe.errors import InvalidArgumentError, ResourceExhaustedError, UnsupportedError
from xoe.torch.compression import Wire
from xoe.torch.gradient import Gradient, dense_alias
from xoe.torch.tensors import DTYPES


class Buckets:
    """The buckets of one optimizer.

    Gradients are reduced one by one at first. The order in which they became ready, on the first rank, then decides where they
    lie; so it is again whenever gradients were reduced that had not been seen before, or have another type or shape now.
    """

    def __init__(self, prefix: str, wire: Wire | None) -> None:
        self._prefix = prefix
        self._buckets: _core.Buckets | None = None
        self._inside: list[Gradient] = []
        self._seen: set[str] = set()
        self._outside: list[Gradient] = []
        # The other compressions look at each gradient as a whole.
        self._wanted = wire is None or wire.kind in ("float16", "bfloat16")

    def lay_out(self, engine: _core.Engine, request: _core.Request, reduced: Sequence[Gradient]) -> None:
        """Called at the end of a step on all ranks, with the gradients that were reduced, in the order in which they became
        ready."""
        if not self._wanted or all(gradient.name in self._seen for gradient in reduced):
            return
        inside = [gradient for gradient in reduced if gradient.group is None and _fits(gradient)]
        made = None
        try:
            made = _core.Buckets(
                engine, self._prefix.removesuffix("."), request, [self._describe(one) for one in inside], torch.empty(0)
            )
        except InvalidArgumentError:
            return  # on all ranks: one has joined
        except (ResourceExhaustedError, UnsupportedError):
            inside = []
        self._seen.update(gradient.name for gradient in reduced)
        self.dissolve()  # some gradients may not fit into the old ones any more
        self._buckets = made
        self._inside = [gradient for index, gradient in enumerate(inside) if gradient.lie_in(made, index)]

    def _describe(self, gradient: Gradient) -> tuple[str, Sequence[int], int, torch.dtype, Sequence[int], Sequence[int]]:
        grad: torch.Tensor = gradient.param.grad  # type: ignore[assignment]
        name = gradient.name.removeprefix(self._prefix)
        return name, dense_alias(grad).shape, DTYPES[grad.dtype], grad.dtype, grad.stride(), grad.shape

    def put(self, gradient: Gradient) -> None:
        """Puts a gradient into its bucket, or, where it does not fit there any more, keeps it for the end of :meth:`wait`."""
        if not gradient.put():
            self._outside.append(gradient)

    def wait(self) -> Sequence[Gradient]:
        """Waits for the step's results. A gradient inside that has not been put is one that this rank does not train.

        Gives back those that do not fit into their buckets, on any rank: the caller reduces them one by one.
        """
        if self._buckets is None:
            return ()
        for gradient in self._inside:
            gradient.leave_out_unless_put()
        self._buckets.wait()
        outside, self._outside = self._outside, []
        self._seen.difference_update(gradient.name for gradient in outside)
        return outside

    def forget(self, gone: Sequence[Gradient]) -> None:
        """Forgets gradients whose names will not come again."""
        self._seen.difference_update(gradient.name for gradient in gone)

    def abandon(self) -> None:
        """Gives up on gradients that were put in a step that has not ended."""
        self._outside = []
        if self._buckets is not None:
            self._buckets.reset()

    def dissolve(self) -> None:
        """Gradients are reduced one by one again."""
        self._outside = []
        for gradient in self._inside:
            gradient.lie_in(None, 0)
        self._inside = []
        self._buckets = None


def _fits(gradient: Gradient) -> bool:
    """Whether it may lie in a bucket: dense memory of the host, of a type that the engine reduces."""
    grad = gradient.param.grad
    return (
        type(grad) is torch.Tensor
        and grad.layout is torch.strided
        and grad.is_cpu
        and grad.dtype in DTYPES
        and grad.numel() > 0
        and not grad.requires_grad
        and not grad.is_neg()
        and dense_alias(grad).is_contiguous()
    )
