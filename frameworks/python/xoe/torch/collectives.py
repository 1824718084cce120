"""Asynchronous collectives. Inputs must not change until they complete.

All take ``name`` (the same on all ranks; None: the n-th unnamed operation of a kind matches the other ranks' n-th) and
``process_set``. Errors of the call itself are raised here, errors of the operation by :func:`synchronize`.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch

from xoe import _core
from xoe import world as _world
from xoe._collective import engine_names, need_parts, row_counts
from xoe.errors import InvalidArgumentError
from xoe.process_sets import ProcessSet, global_process_set
from xoe.reduction import Average, ReduceOp, Sum, choose
from xoe.torch.compression import Wire
from xoe.torch.gpu import Results, choose_device, stream_of
from xoe.torch.handle import Handle
from xoe.torch.sparse import SparseSum
from xoe.torch.tensors import DTYPES, describe, need_tensors, of_array, restore, shares_memory, to_engine

_KINDS = _core.KINDS
_NAMES = {op: op.name.lower() for op in ReduceOp}


@functools.lru_cache(maxsize=1000)
def prepare_request(
    op: ReduceOp, kind: str, prescale: float, postscale: float, set_id: int, wire: Wire | None
) -> _core.Request:
    """What the engine is asked for; the same ones for the same arguments."""
    extra: dict[str, Any] = {}
    if wire is not None:
        extra = {
            "compression": wire.number,
            "error_feedback": wire.error_feedback,
            "top_k_ratio": wire.top_k_ratio,
            "power_sgd_rank": wire.power_sgd_rank,
        }
    kind, reduction = engine_names(op, kind)
    return _core.Request(_KINDS[kind], _core.REDUCTIONS[reduction], prescale, postscale, 0, set_id, **extra)


def _choose_device(tensors: Sequence[torch.Tensor], op: ReduceOp, wire: Wire | None) -> str:
    return "cpu" if wire is not None else choose_device(tensors, _NAMES[op])


def _start(
    name: str | None,
    tensors: Sequence[tuple[torch.Tensor, torch.Tensor | None]],
    request: _core.Request,
    device: str,
    splits: Sequence[int] | None = None,
    dense_shape: Sequence[int] | None = None,
) -> tuple[_core.Operation, Results | None]:
    """Starts an operation on engine tensors, each with memory for its result; None: the engine or ``Results`` allocates it."""
    inputs = [tensor for tensor, _ in tensors]
    results = Results(inputs[0].device) if device != "cpu" and any(out is None for _, out in tensors) else None
    described = [describe(tensor, out) for tensor, out in tensors]
    engine, stream = _world.current().engine, stream_of(device, inputs)
    return engine.submit(name or "", described, request, splits, list(tensors), stream, results, dense_shape), results


# ---- allreduce


def allreduce_async_(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    *,
    wire: Wire | None = None,
) -> Handle:
    """Reduces ``tensor`` over all ranks in place; the handle returns the tensor.

    op: default Average. prescale_factor multiplies the input, postscale_factor the result; float types only.
    wire: a compression of the engine, ``Compression.bf16.wire`` for example.
    """
    need_tensors([tensor])
    op = choose(op, average)
    set_id = process_set.process_set_id
    request = prepare_request(
        op, "allreduce", prescale_factor, postscale_factor, process_set._need() if set_id is None else set_id, wire
    )
    engine = _world.current().engine
    operation = engine.submit_tensor(name or "", tensor, DTYPES, request)
    if operation is not None:
        return Handle(operation, None, tensor)
    device = _choose_device([tensor], op, wire)
    dense = to_engine(tensor, _NAMES[op], device)
    operation = engine.submit_in_place(
        name or "", dense.data_ptr(), dense.shape, DTYPES[dense.dtype], request, dense, stream_of(device, [dense])
    )
    return Handle(operation, _copy_back([dense], [tensor]))._only()


def _copy_back(dense: Sequence[torch.Tensor], tensors: Sequence[torch.Tensor]) -> Any:
    """Copies results of in-place operations back to tensors that the engine worked on through a copy."""

    def finish(_: _core.Operation) -> Any:
        with torch.no_grad():
            for tensor, result in zip(tensors, dense, strict=True):
                if not shares_memory(result, tensor):
                    tensor.copy_(restore(result, tensor))
        return list(tensors)

    return finish


def allreduce_async(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    *,
    wire: Wire | None = None,
) -> Handle:
    """Like :func:`allreduce_async_`, into a new tensor."""
    op = choose(op, average)
    scales = (prescale_factor, postscale_factor)
    return grouped_allreduce_async([tensor], None, name, op, *scales, process_set, wire=wire)._only()


def grouped_allreduce_async(
    tensors: Sequence[torch.Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    *,
    wire: Wire | None = None,
) -> Handle:
    """Reduces several tensors as one operation, into new tensors; the handle returns a list."""
    op = choose(op, average)
    need_tensors(tensors)
    request = prepare_request(op, "allreduce", prescale_factor, postscale_factor, process_set._need(), wire)
    device = _choose_device(tensors, op, wire)
    inputs = [to_engine(tensor, _NAMES[op], device) for tensor in tensors]
    # A copy made by to_engine() can take the result.
    outputs = [
        torch.empty_like(c, requires_grad=False) if shares_memory(c, t) else c for c, t in zip(inputs, tensors, strict=True)
    ]
    operation, _ = _start(name, list(zip(inputs, outputs, strict=True)), request, device)
    likes = [tensor.detach() for tensor in tensors]
    return Handle(operation, lambda _: [restore(output, like) for output, like in zip(outputs, likes, strict=True)])


def grouped_allreduce_async_(
    tensors: Sequence[torch.Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    *,
    wire: Wire | None = None,
) -> Handle:
    """:func:`grouped_allreduce_async` in place."""
    need_tensors(tensors)
    op = choose(op, average)
    request = prepare_request(op, "allreduce", prescale_factor, postscale_factor, process_set._need(), wire)
    device = _choose_device(tensors, op, wire)
    dense = [to_engine(tensor, _NAMES[op], device) for tensor in tensors]
    operation, _ = _start(name, [(c, c) for c in dense], request, device)
    return Handle(operation, _copy_back(dense, tensors))


def sparse_allreduce_async(
    tensor: torch.Tensor, name: str | None = None, op: ReduceOp = Average, process_set: ProcessSet = global_process_set
) -> Handle:
    """The sum or average of sparse COO tensors; the handle returns a coalesced sparse tensor. Ranks may have different
    numbers of entries; only entries are sent.
    """
    if op not in (Average, Sum):
        raise InvalidArgumentError(f"sparse tensors support Sum and Average, not {op!r}")
    given = SparseSum(tensor)
    request = _core.Request(_KINDS["sparse_allreduce"], _core.REDUCTIONS["sum"], process_set=process_set._need())
    operation, _ = _start(name, [(part, None) for part in given.parts], request, "cpu", dense_shape=given.shape)
    ranks = process_set.size()

    def finish(done: _core.Operation) -> torch.Tensor:
        summed = given.result(done.outputs())
        return summed / ranks if op is Average else summed

    return Handle(operation, finish)


# ---- allgather, broadcast, alltoall, reducescatter


def allgather_async(
    tensor: torch.Tensor,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    *,
    needs_all_ranks: bool = True,
) -> Handle:
    """Concatenates all ranks' tensors along the first dimension, which may differ between ranks.

    needs_all_ranks: an error once a rank has joined, as in Horovod. False: joined ranks add no rows.
    """
    return grouped_allgather_async([tensor], name, process_set, needs_all_ranks=needs_all_ranks)._only()


def grouped_allgather_async(
    tensors: Sequence[torch.Tensor],
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    *,
    needs_all_ranks: bool = True,
) -> Handle:
    """Several :func:`allgather_async` that complete together; the handle returns a list."""
    need_tensors(tensors)
    tensors = [tensor.reshape(1) if tensor.dim() == 0 else tensor for tensor in tensors]
    device = choose_device(tensors)
    request = _core.Request(_KINDS["allgather"], process_set=process_set._need(), needs_all_ranks=needs_all_ranks)
    operation, results = _start(name, [(to_engine(tensor, None, device), None) for tensor in tensors], request, device)
    return Handle(operation, _take_outputs(tensors, results))


def _take_outputs(tensors: Sequence[torch.Tensor], made: Results | None) -> Any:
    """Returns results in memory that the engine or ``Results`` allocated."""
    likes = [tensor.detach() for tensor in tensors]

    def finish(done: _core.Operation) -> Any:
        if made is not None:
            return [restore(result, like) for result, like in zip(made.take(), likes, strict=True)]
        return [of_array(array, like) for array, like in zip(done.outputs(), likes, strict=True)]

    return finish


def broadcast_async(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    *,
    needs_all_ranks: bool = True,
) -> Handle:
    """The tensor of ``root_rank`` (a rank of the world), as a new tensor.

    needs_all_ranks: an error once a rank has joined, as in Horovod. False: an error only if the root has.
    """
    need_tensors([tensor])
    return broadcast_async_(tensor.detach().clone(), root_rank, name, process_set, needs_all_ranks=needs_all_ranks)


def broadcast_async_(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    *,
    needs_all_ranks: bool = True,
) -> Handle:
    """Overwrites the tensor with the one of ``root_rank`` (a rank of the world)."""
    need_tensors([tensor])
    request = _core.Request(
        _KINDS["broadcast"],
        root=process_set.root(root_rank),
        process_set=process_set._need(),
        needs_all_ranks=needs_all_ranks,
    )
    device = choose_device([tensor])
    dense = to_engine(tensor, None, device)
    operation, _ = _start(name, [(dense, dense)], request, device)
    return Handle(operation, _copy_back([dense], [tensor]))._only()


def alltoall_async(
    tensor: torch.Tensor,
    splits: torch.Tensor | Sequence[int] | None = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """Sends ``splits[r]`` rows of the first dimension to each rank r of the set; equal parts without ``splits``.

    The handle returns the received rows, in the order of ranks; with ``splits``, a pair of them and of the number of rows
    from each rank, as an int32 tensor.
    """
    values = splits.tolist() if isinstance(splits, torch.Tensor) else splits
    given = None if splits is None else row_counts(splits, values)
    need_tensors([tensor])
    device = choose_device([tensor])
    request = _core.Request(_KINDS["alltoall"], process_set=process_set._need())
    operation, results = _start(name, [(to_engine(tensor, None, device), None)], request, device, given)
    take = _take_outputs([tensor], results)

    def finish(done: _core.Operation) -> Any:
        (received,) = take(done)
        return received if given is None else (received, torch.tensor(done.received_splits(), dtype=torch.int32))

    return Handle(operation, finish)


def reducescatter_async(
    tensor: torch.Tensor,
    name: str | None = None,
    op: ReduceOp = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Handle:
    """This rank's part of the reduced tensor. The first dimension is divided evenly; the first ranks get one row more."""
    return grouped_reducescatter_async([tensor], name, op, process_set, prescale_factor, postscale_factor)._only()


def grouped_reducescatter_async(
    tensors: Sequence[torch.Tensor],
    name: str | None = None,
    op: ReduceOp = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Handle:
    """Several :func:`reducescatter_async` that complete together; the handle returns a list."""
    need_parts(op)
    need_tensors(tensors)
    request = prepare_request(op, "reduce_scatter", prescale_factor, postscale_factor, process_set._need(), None)
    device = _choose_device(tensors, op, None)
    operation, results = _start(name, [(to_engine(tensor, _NAMES[op], device), None) for tensor in tensors], request, device)
    return Handle(operation, _take_outputs(tensors, results))
