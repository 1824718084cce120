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
from xoe.reduction import Average, ReduceOp, Sum, choose
from xoe.torch import collectives as start
from xoe.torch.compression import Compression, Compressor
from xoe.torch.tensors import need_tensors

Tensors = tuple[torch.Tensor, ...]


def _differentiable(tensors: Sequence[torch.Tensor]) -> bool:
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)


def _check_linear(op: Any, name: str) -> None:
    """Only gradients of sums and averages are sums and averages of gradients."""
    if op not in (Average, Sum):
        raise UnsupportedError(f"{name}(op={ReduceOp(op).name}) has no gradient; use Sum or Average, or detach() its input")


# Each function is linear, and so is its gradient. With create_graph=True the gradient has a gradient of its own, which is the
# exact one: the function itself, times the factor by which Horovod's gradient differs from a sum over ranks. All ranks
# take part in it.


def _allreduce(options: dict[str, Any], tensors: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
    if _differentiable(tensors):
        reduced: Tensors = _Allreduce.apply(options, *tensors)
        return reduced
    result: list[torch.Tensor] = start.grouped_allreduce_async(tensors, **options).wait()
    return result


class _Allreduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, options: dict[str, Any], *tensors: torch.Tensor) -> Tensors:
        ctx.options = {**options, "name": None}
        return tuple(start.grouped_allreduce_async(tensors, **options).wait())

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[Any, ...]:
        _check_linear(ctx.options["op"], "allreduce")
        return (None, *_allreduce(ctx.options, grads))


class _Allgather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, name: str | None, process_set: ProcessSet, factor: float, *tensors: torch.Tensor) -> Tensors:
        ctx.process_set = process_set
        ctx.shapes = [tensor.shape for tensor in tensors]
        gathered = start.grouped_allgather_async(tensors, name, process_set).wait()
        return tuple(gathered if factor == 1 else [tensor * factor for tensor in gathered])

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[Any, ...]:
        if _differentiable(grads):
            parts = _AllgatherGradient.apply(ctx.process_set, ctx.shapes, *grads)
        else:
            parts = _reduce_own_rows(ctx.process_set, ctx.shapes, grads)
        return (None, None, None, *parts)


def _reduce_own_rows(process_set: ProcessSet, shapes: Sequence[torch.Size], grads: Sequence[torch.Tensor]) -> Tensors:
    """The average over ranks of the rows that this rank gave to an allgather, in the shapes that it gave."""
    reduced = start.grouped_allreduce_async(grads, op=Average, process_set=process_set)
    counts = [shape[0] if len(shape) > 0 else 1 for shape in shapes]
    rows = start.allgather_async(torch.tensor([counts]), process_set=process_set).wait()
    first = rows[: process_set.rank()].sum(0).tolist()
    return tuple(
        grad.narrow(0, begin, count).reshape(shape)
        for grad, begin, count, shape in zip(reduced.wait(), first, counts, shapes, strict=True)
    )


class _AllgatherGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, process_set: ProcessSet, shapes: Sequence[torch.Size], *grads: torch.Tensor) -> Tensors:
        ctx.process_set = process_set
        return tuple(part.clone() for part in _reduce_own_rows(process_set, shapes, grads))

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[Any, ...]:
        return (None, None, *_Allgather.apply(None, ctx.process_set, 1 / ctx.process_set.size(), *grads))


class _Broadcast(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, tensor: torch.Tensor, root_rank: int, name: str | None, process_set: ProcessSet, factor: float
    ) -> torch.Tensor:
        ctx.root_rank, ctx.process_set = root_rank, process_set
        result: torch.Tensor = start.broadcast_async(tensor, root_rank, name, process_set).wait()
        return result if factor == 1 else result * factor

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
        if _differentiable([grad]):
            result = _BroadcastGradient.apply(grad, ctx.root_rank, ctx.process_set)
        else:
            result = _reduce_to_root(grad, ctx.root_rank, ctx.process_set)
        return result, None, None, None, None


def _reduce_to_root(grad: torch.Tensor, root_rank: int, process_set: ProcessSet) -> torch.Tensor:
    """The average over ranks for the root of a broadcast, and zeros for the others."""
    reduced: torch.Tensor = start.allreduce_async(grad, op=Average, process_set=process_set).wait()
    return reduced if _world.rank() == root_rank else torch.zeros_like(reduced)


class _BroadcastGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, grad: torch.Tensor, root_rank: int, process_set: ProcessSet) -> torch.Tensor:
        ctx.root_rank, ctx.process_set = root_rank, process_set
        return _reduce_to_root(grad, root_rank, process_set)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
        factor = 1 / ctx.process_set.size()
        return _Broadcast.apply(grad, ctx.root_rank, None, ctx.process_set, factor), None, None


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
        if _differentiable([grad]):
            returned = _Alltoall.apply(grad, ctx.received, None, ctx.process_set)
        else:
            returned = start.alltoall_async(grad, ctx.received, None, ctx.process_set).wait()
        return returned[0], None, None, None


class _ReduceScatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, options: dict[str, Any], factor: float, *tensors: torch.Tensor) -> Tensors:
        ctx.options = options
        scattered = start.grouped_reducescatter_async(tensors, **options).wait()
        return tuple(scattered if factor == 1 else [tensor * factor for tensor in scattered])

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[Any, ...]:
        _check_linear(ctx.options["op"], "reducescatter")
        if _differentiable(grads):
            return (None, None, *_ReduceScatterGradient.apply(ctx.options, *grads))
        return (None, None, *_gather_scaled(ctx.options, grads))


def _gather_scaled(options: dict[str, Any], grads: Sequence[torch.Tensor]) -> Tensors:
    """The rows of all ranks, multiplied as a reducescatter with these options does, and by the number of ranks for a sum."""
    scale = options["prescale_factor"] * options["postscale_factor"]
    if options["op"] is Sum:
        scale *= options["process_set"].size()
    scaled = [grad if scale == 1 else grad * scale for grad in grads]
    return tuple(start.grouped_allgather_async(scaled, None, options["process_set"]).wait())


class _ReduceScatterGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, options: dict[str, Any], *grads: torch.Tensor) -> Tensors:
        ctx.options = {**options, "name": None}
        return _gather_scaled(options, grads)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[Any, ...]:
        return (None, *_ReduceScatter.apply(ctx.options, ctx.options["process_set"].size(), *grads))


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
    results = _allreduce(options, inputs)
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
        return list(_Allgather.apply(name, process_set, 1, *tensors))
    result: list[torch.Tensor] = start.grouped_allgather_async(tensors, name, process_set).wait()
    return result


def broadcast(
    tensor: torch.Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> torch.Tensor:
    """The tensor of ``root_rank`` (a rank of the world), as a new tensor."""
    need_tensors([tensor])
    if _differentiable([tensor]):
        result: torch.Tensor = _Broadcast.apply(tensor, root_rank, name, process_set, 1)
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
        results: Any = _ReduceScatter.apply(options, 1, *inputs)
    else:
        results = start.grouped_reducescatter_async(inputs, **options).wait()
    return [compression.decompress(result, ctx) for result, (_, ctx) in zip(results, packed, strict=True)]
