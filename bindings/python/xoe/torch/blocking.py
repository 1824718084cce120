"""Blocking, differentiable collectives.

Gradients follow Horovod: for allgather, broadcast and reducescatter they are the *average* over ranks of what would
otherwise be a sum, as if all ranks computed a single loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from xoe import world as _world
from xoe.errors import UnsupportedError
from xoe.process_sets import ProcessSet, global_process_set
from xoe.reduction import Average, Max, Min, Product, ReduceOp, Sum, choose
from xoe.torch import collectives as start
from xoe.torch.compression import Compression, Compressor
from xoe.torch.tensors import need_tensors

Tensors = tuple[torch.Tensor, ...]


def _differentiable(tensors: Sequence[torch.Tensor]) -> bool:
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)


def _check_linear(op: Any, name: str) -> None:
    """Only gradients of sums and averages are sums and averages of gradients."""
    if op in (Max, Min, Product):
        raise UnsupportedError(f"{name}(op={op!r}) has no gradient; use Sum or Average, or detach() its input")


class _Allreduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, options: dict[str, Any], *tensors: torch.Tensor) -> Tensors:
        ctx.options = {**options, "name": None}
        return tuple(start.grouped_allreduce_async(tensors, **options).wait())

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[Any, ...]:
        _check_linear(ctx.options["op"], "allreduce")
        return (None, *start.grouped_allreduce_async(grads, **ctx.options).wait())


class _Allgather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, name: str | None, process_set: ProcessSet, *tensors: torch.Tensor) -> Tensors:
        ctx.process_set = process_set
        ctx.rows = [tensor.shape[0] if tensor.dim() > 0 else 1 for tensor in tensors]
        ctx.shapes = [tensor.shape for tensor in tensors]
        return tuple(start.grouped_allgather_async(tensors, name, process_set).wait())

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[Any, ...]:
        reduced = start.grouped_allreduce_async(grads, op=Average, process_set=ctx.process_set)
        rows = start.allgather_async(torch.tensor([ctx.rows]), process_set=ctx.process_set).wait()
        first = rows[: ctx.process_set.rank()].sum(0).tolist()
        parts = [
            grad.narrow(0, begin, count).reshape(shape)
            for grad, begin, count, shape in zip(reduced.wait(), first, ctx.rows, ctx.shapes, strict=True)
        ]
        return (None, None, *parts)


class _Broadcast(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, root_rank: int, name: str | None, process_set: ProcessSet) -> torch.Tensor:
        ctx.root_rank, ctx.process_set = root_rank, process_set
        result: torch.Tensor = start.broadcast_async(tensor, root_rank, name, process_set).wait()
        return result

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
        reduced = start.allreduce_async(grad, op=Average, process_set=ctx.process_set).wait()
        return (reduced if _world.rank() == ctx.root_rank else torch.zeros_like(reduced)), None, None, None


class _Alltoall(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, splits: Any, name: str | None, process_set: ProcessSet) -> Tensors:
        if splits is None:
            each, rest = divmod(tensor.shape[0], process_set.size())
            # Uneven: the engine reports the error.
            splits = None if rest else [each] * process_set.size()
        received = start.alltoall_async(tensor, splits, name, process_set).wait()
        output, ctx.received = received if isinstance(received, tuple) else (received, torch.zeros(0, dtype=torch.int32))
        ctx.process_set = process_set
        ctx.mark_non_differentiable(ctx.received)
        return output, ctx.received

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor, _: torch.Tensor) -> tuple[Any, ...]:
        return start.alltoall_async(grad, ctx.received, None, ctx.process_set).wait()[0], None, None, None


class _ReduceScatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, options: dict[str, Any], *tensors: torch.Tensor) -> Tensors:
        ctx.options = options
        return tuple(start.grouped_reducescatter_async(tensors, **options).wait())

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[Any, ...]:
        _check_linear(ctx.options["op"], "reducescatter")
        process_set = ctx.options["process_set"]
        scale = ctx.options["prescale_factor"] * ctx.options["postscale_factor"]
        if ctx.options["op"] is Sum:
            scale *= process_set.size()
        scaled = [grad if scale == 1 else grad * scale for grad in grads]
        return (None, *start.grouped_allgather_async(scaled, None, process_set).wait())


# ---- Public functions


def allreduce(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    compression: type[Compressor] | Compressor = Compression.none,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """The tensor reduced over all ranks (default Average), as a new tensor of the same shape and type."""
    return grouped_allreduce([tensor], average, name, compression, op, prescale_factor, postscale_factor, process_set)[0]


def grouped_allreduce(
    tensors: Sequence[torch.Tensor],
    average: bool | None = None,
    name: str | None = None,
    compression: type[Compressor] | Compressor = Compression.none,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> list[torch.Tensor]:
    """Several tensors reduced together, as new tensors."""
    need_tensors(tensors)
    packed = [compression.compress(tensor) for tensor in tensors]
    options: dict[str, Any] = {
        "name": name,
        "op": choose(op, average),
        "prescale_factor": prescale_factor,
        "postscale_factor": postscale_factor,
        "process_set": process_set,
        "wire": compression.wire if isinstance(compression, Compressor) else getattr(compression, "wire", None),
    }
    inputs = [tensor for tensor, _ in packed]
    if _differentiable(inputs):
        results: Any = _Allreduce.apply(options, *inputs)
    else:
        results = start.grouped_allreduce_async(inputs, **options).wait()
    return [compression.decompress(result, ctx) for result, (_, ctx) in zip(results, packed, strict=True)]


def allreduce_(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """:func:`allreduce` in place, without gradients."""
    result: torch.Tensor = start.allreduce_async_(
        tensor, average, name, op, prescale_factor, postscale_factor, process_set
    ).wait()
    return result


def grouped_allreduce_(
    tensors: Sequence[torch.Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> list[torch.Tensor]:
    """:func:`grouped_allreduce` in place, without gradients."""
    result: list[torch.Tensor] = start.grouped_allreduce_async_(
        tensors, average, name, op, prescale_factor, postscale_factor, process_set
    ).wait()
    return result


def allgather(tensor: torch.Tensor, name: str | None = None, process_set: ProcessSet = global_process_set) -> torch.Tensor:
    """Concatenates all ranks' tensors along the first dimension, which may differ between ranks."""
    return grouped_allgather([tensor], name, process_set)[0]


def grouped_allgather(
    tensors: Sequence[torch.Tensor], name: str | None = None, process_set: ProcessSet = global_process_set
) -> list[torch.Tensor]:
    """Several :func:`allgather` that complete together."""
    need_tensors(tensors)
    if _differentiable(tensors):
        return list(_Allgather.apply(name, process_set, *tensors))
    result: list[torch.Tensor] = start.grouped_allgather_async(tensors, name, process_set).wait()
    return result


def broadcast(
    tensor: torch.Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> torch.Tensor:
    """The tensor of ``root_rank`` (a rank of the world), as a new tensor."""
    need_tensors([tensor])
    if _differentiable([tensor]):
        result: torch.Tensor = _Broadcast.apply(tensor, root_rank, name, process_set)
    else:
        result = start.broadcast_async(tensor, root_rank, name, process_set).wait()
    return result


def broadcast_(
    tensor: torch.Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> torch.Tensor:
    """Overwrites the tensor with the one of ``root_rank``, without gradients."""
    result: torch.Tensor = start.broadcast_async_(tensor, root_rank, name, process_set).wait()
    return result


def alltoall(
    tensor: torch.Tensor,
    splits: torch.Tensor | Sequence[int] | None = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """Sends ``splits[r]`` rows to each rank r; returns the received rows and, with ``splits``, their number from each rank."""
    need_tensors([tensor])
    if not _differentiable([tensor]):
        result: Any = start.alltoall_async(tensor, splits, name, process_set).wait()
        return result  # type: ignore[no-any-return]
    output, received = _Alltoall.apply(tensor, splits, name, process_set)
    return output if splits is None else (output, received)


def reducescatter(
    tensor: torch.Tensor,
    name: str | None = None,
    compression: type[Compressor] | Compressor = Compression.none,
    op: ReduceOp = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> torch.Tensor:
    """This rank's part of the reduced tensor. The first dimension is divided evenly; the first ranks get one row more."""
    return grouped_reducescatter([tensor], name, compression, op, process_set, prescale_factor, postscale_factor)[0]


def grouped_reducescatter(
    tensors: Sequence[torch.Tensor],
    name: str | None = None,
    compression: type[Compressor] | Compressor = Compression.none,
    op: ReduceOp = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> list[torch.Tensor]:
    """Several :func:`reducescatter` that complete together."""
    need_tensors(tensors)
    packed = [compression.compress(tensor) for tensor in tensors]
    options: dict[str, Any] = {
        "name": name,
        "op": ReduceOp(op),
        "process_set": process_set,
        "prescale_factor": prescale_factor,
        "postscale_factor": postscale_factor,
    }
    inputs = [tensor for tensor, _ in packed]
    if _differentiable(inputs):
        results: Any = _ReduceScatter.apply(options, *inputs)
    else:
        results = start.grouped_reducescatter_async(inputs, **options).wait()
    return [compression.decompress(result, ctx) for result, (_, ctx) in zip(results, packed, strict=True)]
