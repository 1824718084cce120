"""Blocking, differentiable collectives.

Gradients follow Horovod: for allgather, broadcast and reducescatter they are the *average* over ranks of what would
otherwise be a sum, as if all ranks computed a single loss.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from xoe import world as _world
from xoe.errors import UnsupportedError
from xoe.process_sets import ProcessSet, global_process_set
from xoe.reduction import Average, ReduceOp, Sum, choose
from xoe.torch import collectives as start
from xoe.torch.compression import Compression, Compressor
from xoe.torch.tensors import need_tensors

Tensors = Sequence[torch.Tensor]
Function = Callable[[Tensors], Tensors]


def _differentiable(tensors: Tensors) -> bool:
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)


def _check_linear(op: Any, name: str) -> None:
    """Only gradients of sums and averages are sums and averages of gradients."""
    if op not in (Average, Sum):
        raise UnsupportedError(f"{name}(op={ReduceOp(op).name}) has no gradient; use Sum or Average, or detach() its input")


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, run: Function, gradient: Function, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.gradient = gradient
        return tuple(run(tensors))

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[Any, ...]:
        return (None, None, *ctx.gradient(grads))


def _linear(run: Function, gradient: Function, tensors: Tensors) -> Tensors:
    """``run(tensors)``, whose gradient is ``gradient`` of the gradients of its results."""
    if not _differentiable(tensors):
        return run(tensors)
    results: Tensors = _Linear.apply(run, gradient, *tensors)
    return results


# Each function is linear, and so is its gradient. With create_graph=True the gradient has a gradient of its own, which is the
# exact one: the function itself, times the factor by which Horovod's gradient differs from a sum over ranks. All ranks
# take part in it.


def _allreduce(options: dict[str, Any], tensors: Tensors) -> Tensors:
    def gradient(grads: Tensors) -> Tensors:
        _check_linear(options["op"], "allreduce")
        return _allreduce({**options, "name": None}, grads)

    return _linear(lambda given: start.grouped_allreduce_async(given, **options).wait(), gradient, tensors)


def _allgather(name: str | None, process_set: ProcessSet, factor: float, tensors: Tensors) -> Tensors:
    shapes = [tensor.shape for tensor in tensors]

    def run(given: Tensors) -> Tensors:
        gathered: Tensors = start.grouped_allgather_async(given, name, process_set).wait()
        return gathered if factor == 1 else [tensor * factor for tensor in gathered]

    def gradient(grads: Tensors) -> Tensors:
        if not _differentiable(grads):
            return _reduce_own_rows(process_set, shapes, grads)
        back = partial(_allgather, None, process_set, 1 / process_set.size())
        return _linear(lambda given: [part.clone() for part in _reduce_own_rows(process_set, shapes, given)], back, grads)

    return _linear(run, gradient, tensors)


def _reduce_own_rows(process_set: ProcessSet, shapes: Sequence[torch.Size], grads: Tensors) -> Tensors:
    """The average over ranks of the rows that this rank gave to an allgather, in the shapes that it gave."""
    reduced = start.grouped_allreduce_async(grads, op=Average, process_set=process_set)
    counts = [shape[0] if len(shape) > 0 else 1 for shape in shapes]
    rows = start.allgather_async(torch.tensor([counts]), process_set=process_set).wait()
    first = rows[: process_set.rank()].sum(0).tolist()
    return [
        grad.narrow(0, begin, count).reshape(shape)
        for grad, begin, count, shape in zip(reduced.wait(), first, counts, shapes, strict=True)
    ]


def _broadcast(root_rank: int, name: str | None, process_set: ProcessSet, factor: float, tensors: Tensors) -> Tensors:
    def run(given: Tensors) -> Tensors:
        result: torch.Tensor = start.broadcast_async(given[0], root_rank, name, process_set).wait()
        return [result if factor == 1 else result * factor]

    def gradient(grads: Tensors) -> Tensors:
        back = partial(_broadcast, root_rank, None, process_set, 1 / process_set.size())
        return _linear(partial(_reduce_to_root, root_rank, process_set), back, grads)

    return _linear(run, gradient, tensors)


def _reduce_to_root(root_rank: int, process_set: ProcessSet, grads: Tensors) -> Tensors:
    """The average over ranks for the root of a broadcast, and zeros for the others."""
    reduced: torch.Tensor = start.allreduce_async(grads[0], op=Average, process_set=process_set).wait()
    return [reduced if _world.rank() == root_rank else torch.zeros_like(reduced)]


def _alltoall(tensor: torch.Tensor, splits: Any, name: str | None, process_set: ProcessSet) -> Tensors:
    """The received rows, and their number from each rank."""
    received: torch.Tensor

    def run(given: Tensors) -> Tensors:
        nonlocal received
        output, received = start.alltoall_async(given[0], splits, name, process_set).wait()
        return [output]

    (output,) = _linear(run, lambda grads: _alltoall(grads[0], received, None, process_set)[:1], [tensor])
    return output, received


def _reduce_scatter(options: dict[str, Any], factor: float, tensors: Tensors) -> Tensors:
    def run(given: Tensors) -> Tensors:
        scattered: Tensors = start.grouped_reducescatter_async(given, **options).wait()
        return scattered if factor == 1 else [tensor * factor for tensor in scattered]

    def gradient(grads: Tensors) -> Tensors:
        _check_linear(options["op"], "reducescatter")
        back = partial(_reduce_scatter, {**options, "name": None}, options["process_set"].size())
        return _linear(partial(_gather_scaled, options), back, grads)

    return _linear(run, gradient, tensors)


def _gather_scaled(options: dict[str, Any], grads: Tensors) -> Tensors:
    """The rows of all ranks, multiplied as a reducescatter with these options does, and by the number of ranks for a sum."""
    scale = options["prescale_factor"] * options["postscale_factor"]
    if options["op"] is Sum:
        scale *= options["process_set"].size()
    scaled = [grad if scale == 1 else grad * scale for grad in grads]
    gathered: Tensors = start.grouped_allgather_async(scaled, None, options["process_set"]).wait()
    return gathered


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
    return list(_allgather(name, process_set, 1, tensors))


def broadcast(
    tensor: torch.Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> torch.Tensor:
    """The tensor of ``root_rank`` (a rank of the world), as a new tensor."""
    need_tensors([tensor])
    return _broadcast(root_rank, name, process_set, 1, [tensor])[0]


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
    each, rest = divmod(tensor.shape[0], process_set.size())
    equal = None if rest else [each] * process_set.size()  # uneven: the engine reports the error
    output, received = _alltoall(tensor, equal if splits is None else splits, name, process_set)
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
    results = _reduce_scatter(options, 1, inputs)
    return [compression.decompress(result, ctx) for result, (_, ctx) in zip(results, packed, strict=True)]
