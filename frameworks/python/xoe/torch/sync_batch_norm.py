"""Batch normalisation over the batches of all ranks."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from xoe.errors import InvalidArgumentError
from xoe.process_sets import ProcessSet, global_process_set
from xoe.reduction import Sum
from xoe.torch.blocking import allreduce
from xoe.torch.collectives import allreduce_async_


def _sum_over_ranks(values: torch.Tensor, process_set: ProcessSet) -> torch.Tensor:
    """The sum, in place; as a new tensor where a graph is recorded, to which it then belongs."""
    if torch.is_grad_enabled() and values.requires_grad:
        return allreduce(values, op=Sum, process_set=process_set)
    result: torch.Tensor = allreduce_async_(values, op=Sum, process_set=process_set).wait()
    return result


class _Normalize(torch.autograd.Function):
    """Normalises values of at least 32 bits over all ranks. Also returns, of each channel, the inverse of the standard
    deviation, the mean, the biased variance and the number of values.

    Ioffe and Szegedy, "Batch Normalization", 2015: the gradient of their section 3, with sums over ranks. Backward reads only
    outputs that have gradients, and ``count``, which is constant; so it can be differentiated, too.
    """

    @staticmethod
    def forward(ctx: Any, values: torch.Tensor, eps: float, process_set: ProcessSet) -> tuple[torch.Tensor, ...]:
        dims = [0, *range(2, values.dim())]
        shape = [1, -1, *[1] * (values.dim() - 2)]
        count = values.new_tensor([values.numel() // max(values.shape[1], 1)])
        total = _sum_over_ranks(torch.cat([values.sum(dims), count]), process_set)
        count = total[-1].clamp(min=1)
        mean = total[:-1] / count
        # In two passes, since a difference of large sums loses digits.
        centered = values - mean.reshape(shape)
        variance = _sum_over_ranks(centered.square().sum(dims), process_set) / count
        invstd = torch.rsqrt(variance + eps)
        normal = centered * invstd.reshape(shape)
        ctx.save_for_backward(normal, invstd, count)
        ctx.process_set, ctx.dims, ctx.shape = process_set, dims, shape
        ctx.mark_non_differentiable(mean, variance, count)
        ctx.set_materialize_grads(False)
        return normal, invstd, mean, variance, count

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor | None, invstd_grad: torch.Tensor | None, *_: Any) -> tuple[Any, ...]:
        normal, invstd, count = ctx.saved_tensors
        dims, shape = ctx.dims, ctx.shape
        if grad is None:
            grad = torch.zeros_like(normal)
        product = (grad * normal).sum(dims)
        if invstd_grad is not None:  # in a second backward pass: the first one has used invstd
            product = product + invstd_grad * invstd
        sums = _sum_over_ranks(torch.cat([grad.sum(dims), product]), ctx.process_set) / count
        mean_grad, mean_product = sums.chunk(2)
        result = (grad - mean_grad.reshape(shape) - normal * mean_product.reshape(shape)) * invstd.reshape(shape)
        return result, None, None


class SyncBatchNorm(_BatchNorm):
    """:class:`torch.nn.BatchNorm2d` (1d, 3d) with mean and variance over the batches of all ranks, which may differ in size.

    Arguments as in BatchNorm; input [N, C, ...] of a floating-point type. No communication in evaluation mode.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_set: ProcessSet = global_process_set,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats)
        self._process_set = process_set

    def _check_input_dim(self, input: torch.Tensor) -> None:
        if input.dim() < 2:
            raise InvalidArgumentError(f"expected at least two dimensions [N, C, ...], got {input.dim()}")
        if input.shape[1] != self.num_features:
            raise InvalidArgumentError(f"expected {self.num_features} channels, got {input.shape[1]}")

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """The normalised input."""
        self._check_input_dim(input)
        if not self.training or self._process_set.size() == 1:
            return super().forward(input)
        values = input.to(torch.promote_types(input.dtype, torch.float32))
        normal, _, mean, variance, count = _Normalize.apply(values, self.eps, self._process_set)
        normal = normal.to(input.dtype)
        if self.track_running_stats:
            self._track(mean, variance, count)
        shape = [1, -1, *[1] * (input.dim() - 2)]
        if self.affine:
            normal = normal * self.weight.reshape(shape).to(normal.dtype) + self.bias.reshape(shape).to(normal.dtype)
        result: torch.Tensor = normal
        return result

    @torch.no_grad()
    def _track(self, mean: torch.Tensor, variance: torch.Tensor, count: torch.Tensor) -> None:
        assert self.num_batches_tracked is not None and self.running_mean is not None and self.running_var is not None
        self.num_batches_tracked.add_(1)
        share = 1.0 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        unbiased = variance * count / (count - 1).clamp(min=1)
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), share)
        self.running_var.lerp_(unbiased.to(self.running_var.dtype), share)

    @classmethod
    def convert_sync_batchnorm(cls, module: torch.nn.Module, process_set: ProcessSet = global_process_set) -> torch.nn.Module:
        """Replaces every batch norm in the module by a synchronized one, with its parameters and statistics."""
        converted = module
        if isinstance(module, _BatchNorm) and not isinstance(module, cls):
            converted = cls(
                module.num_features, module.eps, module.momentum, module.affine, module.track_running_stats, process_set
            )
            for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked"):
                setattr(converted, name, getattr(module, name))
            converted.training = module.training
        for name, child in module.named_children():
            converted.add_module(name, cls.convert_sync_batchnorm(child, process_set))
        return converted
