"""Collectives of torch.distributed as operations of the engine.

Each function starts what it is named after and gives the operation, and what is left to do once that has completed (None:
nothing). Tensors are those of this rank; ``lane`` is the group that they belong to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch.utils.dlpack import from_dlpack

from xoe import _core
from xoe.errors import InvalidArgumentError, MismatchError, UnavailableError
from xoe.torch.gpu import choose_target, current_stream
from xoe.torch.tensors import DTYPES, restore, shares_memory, to_engine_tensor

Finish = Callable[[], None] | None
Started = tuple[_core.Operation, Finish]

_NAMES = 1024  # used in turns: the engine knows names, and forgets those that are new each time


class Lane:
    """The operations of one group. Its n-th meets the other ranks' n-th; if that is another one, all ranks get an error."""

    def __init__(self, engine: _core.Engine, process_set: int, rank: int, size: int, label: str) -> None:
        self.rank = rank
        self.size = size
        self._engine: _core.Engine | None = engine
        self._process_set = process_set
        self._label = label
        self._count = 0
        self._requests: dict[tuple[str, str, float, int], _core.Request] = {}

    def start(
        self,
        kind: str,
        sources: Sequence[torch.Tensor] = (),
        results: Sequence[torch.Tensor | None] = (),
        *,
        reduction: str = "sum",
        prescale: float = 1.0,
        root: int = 0,
        splits: Sequence[int] | None = None,
        shapes: Sequence[Sequence[int]] | None = None,
        target: str = "cpu",
    ) -> _core.Operation:
        """Starts an operation on dense tensors; ``shapes``: as what it sees them."""
        if self._engine is None:
            raise UnavailableError(f"{kind}: the process group was destroyed")
        key = (kind, reduction, prescale, root)
        request = self._requests.get(key)
        if request is None:
            request = _core.Request(
                _core.KINDS[kind], _core.REDUCTIONS[reduction], prescale, root=root, process_set=self._process_set
            )
            self._requests[key] = request
        name = f"{self._label}.{self._count % _NAMES}"
        self._count += 1
        tensors = [
            (source.data_ptr(), 0 if result is None else result.data_ptr(), shape, DTYPES[source.dtype])
            for source, result, shape in zip(sources, results, shapes or [source.shape for source in sources], strict=True)
        ]
        stream = current_stream(target, sources)
        return self._engine.submit(name, tensors, request, splits, (list(sources), list(results)), stream)

    def close(self) -> None:
        """Lets go of the engine."""
        self._engine = None
        self._requests.clear()


class Landing:
    """Where the results for a tensor go: its own memory where the core can write there, else other memory first."""

    def __init__(self, tensor: torch.Tensor, target: str = "cpu") -> None:
        self.tensor = tensor
        usable = tensor.device.type == target and tensor.is_contiguous() and not (tensor.is_conj() or tensor.is_neg())
        device = tensor.device if tensor.device.type == target else target
        like = tensor if usable else torch.empty(tensor.shape, dtype=tensor.dtype, device=device)
        self.dense = to_engine_tensor(like, None, target)
        self.in_place = usable and shares_memory(self.dense, tensor)

    def finish(self) -> None:
        """Brings the results to the tensor."""
        if not self.in_place:
            self.tensor.copy_(restore(self.dense, torch.empty(0, dtype=self.tensor.dtype, device=self.dense.device)))


def _finish(landings: Sequence[Landing]) -> Finish:
    left = [landing for landing in landings if not landing.in_place]
    if not left:
        return None

    def finish() -> None:
        for landing in left:
            landing.finish()

    return finish


def _copy_back(sent: Sequence[torch.Tensor], tensors: Sequence[torch.Tensor]) -> Finish:
    pairs = [(c, t) for c, t in zip(sent, tensors, strict=True) if not shares_memory(c, t)]
    if not pairs:
        return None

    def finish() -> None:
        for result, tensor in pairs:
            tensor.copy_(restore(result, tensor))

    return finish


def _end(tensor: torch.Tensor) -> int:
    return tensor.data_ptr() + tensor.numel() * tensor.element_size()


def _overlap(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.data_ptr() < _end(other) and other.data_ptr() < _end(one)


def _distinct(source: torch.Tensor, results: Sequence[torch.Tensor]) -> torch.Tensor:
    """A source that no result is written over: FSDP gathers from its own part of the output."""
    return source.clone() if any(_overlap(source, result) for result in results) else source


def _write_parts(operation: _core.Operation, landings: Sequence[Landing], what: str) -> None:
    """Copies what came from each rank, one after the other in the engine's memory, to its own tensor."""
    received = operation.received_splits()
    expected = [landing.dense.numel() for landing in landings]
    if received != expected:
        raise MismatchError(f"{what}: ranks sent {received} elements, this rank has room for {expected}")
    for landing, part in zip(landings, from_dlpack(operation.outputs()[0]).split_with_sizes(received), strict=True):
        landing.dense.copy_(part.view(landing.dense.shape))
        landing.finish()


# ---- reductions


def allreduce(lane: Lane, tensors: Sequence[torch.Tensor], reduction: str, prescale: float) -> Started:
    """In place."""
    target = choose_target(tensors, reduction, prescale != 1.0)
    sent = [to_engine_tensor(tensor, reduction, target) for tensor in tensors]
    operation = lane.start("allreduce", sent, sent, reduction=reduction, prescale=prescale, target=target)
    return operation, _copy_back(sent, tensors)


def reduce(lane: Lane, tensors: Sequence[torch.Tensor], reduction: str, prescale: float, root: int) -> Started:
    """In place at the root; the other ranks' tensors stay as they are."""
    if lane.rank == root:
        return allreduce(lane, tensors, reduction, prescale)
    target = choose_target(tensors, reduction, prescale != 1.0)
    sent = [to_engine_tensor(tensor, reduction, target) for tensor in tensors]
    unused = [torch.empty_like(c, requires_grad=False) for c in sent]
    return lane.start("allreduce", sent, unused, reduction=reduction, prescale=prescale, target=target), None


def reduce_scatter(
    lane: Lane, outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor], reduction: str, prescale: float
) -> Started:
    """Each input is cut into as many equal parts as there are ranks; this rank's goes to the output."""
    target = choose_target([*inputs, *outputs], reduction, prescale != 1.0)
    sent = [to_engine_tensor(tensor, reduction, target) for tensor in inputs]
    landings = [Landing(output, target) for output in outputs]
    if target != "cpu":  # where results need memory of their own
        sent = [_distinct(source, [landing.dense]) for source, landing in zip(sent, landings, strict=True)]
    for source, landing in zip(sent, landings, strict=True):
        if source.numel() != lane.size * landing.dense.numel() or source.dtype != landing.dense.dtype:
            raise InvalidArgumentError(
                f"reduce_scatter: an input of {list(source.shape)} {source.dtype} has not {lane.size} parts of"
                f" {list(landing.tensor.shape)} {landing.tensor.dtype}"
            )
    shapes = [(lane.size, landing.dense.numel()) for landing in landings]
    # A part of the input itself is written last.
    direct = [not _overlap(source, landing.dense) for source, landing in zip(sent, landings, strict=True)]
    results = [landing.dense if apart else None for landing, apart in zip(landings, direct, strict=True)]
    operation = lane.start(
        "reduce_scatter", sent, results, reduction=reduction, prescale=prescale, shapes=shapes, target=target
    )
    if all(direct):
        return operation, _finish(landings)

    def finish() -> None:
        for output, landing, written in zip(operation.outputs(), landings, direct, strict=True):
            if not written:
                landing.dense.copy_(from_dlpack(output).view(landing.dense.shape))
            landing.finish()

    return operation, finish


def reduce_scatter_uneven(
    lane: Lane, output: torch.Tensor, inputs: Sequence[torch.Tensor], reduction: str, prescale: float
) -> Started:
    """Parts of different sizes, one for each rank: all of them are reduced everywhere."""
    whole = torch.cat([to_engine_tensor(tensor, reduction).reshape(-1) for tensor in inputs])
    landing = Landing(output)
    part = to_engine_tensor(inputs[lane.rank], reduction).numel()
    if part != landing.dense.numel():
        raise InvalidArgumentError(
            f"reduce_scatter: the part for this rank has {list(inputs[lane.rank].shape)}, the output {list(output.shape)}"
        )
    first = sum(to_engine_tensor(tensor).numel() for tensor in inputs[: lane.rank])
    operation = lane.start("allreduce", [whole], [whole], reduction=reduction, prescale=prescale)

    def finish() -> None:
        landing.dense.copy_(whole[first : first + part].view(landing.dense.shape))
        landing.finish()

    return operation, finish


# ---- moves


def broadcast(lane: Lane, tensors: Sequence[torch.Tensor], root: int) -> Started:
    """The root's tensors arrive in those of all ranks."""
    target = choose_target(tensors)
    sent = [to_engine_tensor(tensor, None, target) for tensor in tensors]
    return lane.start("broadcast", sent, sent, root=root, target=target), _copy_back(sent, tensors)


def allgather(lane: Lane, outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]) -> Started:
    """All ranks' inputs one after the other in each output."""
    target = choose_target([*inputs, *outputs])
    landings = [Landing(output, target) for output in outputs]
    sent = [
        _distinct(to_engine_tensor(tensor, None, target), [landing.dense])
        for tensor, landing in zip(inputs, landings, strict=True)
    ]
    for source, landing in zip(sent, landings, strict=True):
        if landing.dense.numel() != lane.size * source.numel() or source.dtype != landing.dense.dtype:
            raise InvalidArgumentError(
                f"allgather: {lane.size} inputs of {list(source.shape)} {source.dtype} do not fill an output of"
                f" {list(landing.tensor.shape)} {landing.tensor.dtype}"
            )
    # One row each: that ranks give as much is agreed upon, and no result is longer than its memory.
    shapes = [(1, source.numel()) for source in sent]
    operation = lane.start("allgather", sent, [landing.dense for landing in landings], shapes=shapes, target=target)
    return operation, _finish(landings)


def allgather_parts(lane: Lane, outputs: Sequence[torch.Tensor], tensor: torch.Tensor) -> Started:
    """Each rank's input in an output of its own; they may have different sizes."""
    landings = [Landing(output) for output in outputs]
    source = to_engine_tensor(tensor)
    operation = lane.start("allgather", [source], [None], shapes=[(source.numel(),)])
    return operation, lambda: _write_parts(operation, landings, "allgather")


def gather(lane: Lane, outputs: Sequence[torch.Tensor], tensor: torch.Tensor, root: int) -> Started:
    """All ranks' inputs in the root's outputs."""
    landings = [Landing(output) for output in outputs]
    source = to_engine_tensor(tensor)
    splits = [source.numel() if rank == root else 0 for rank in range(lane.size)]
    operation = lane.start("alltoall", [source], [None], splits=splits, shapes=[(source.numel(),)])
    return operation, (lambda: _write_parts(operation, landings, "gather")) if lane.rank == root else None


def scatter(lane: Lane, output: torch.Tensor, inputs: Sequence[torch.Tensor], root: int) -> Started:
    """The root's n-th input in the output of rank n."""
    landing = Landing(output)
    parts = [to_engine_tensor(tensor).reshape(-1) for tensor in inputs]
    source = torch.cat(parts) if parts else landing.dense.new_empty(0)
    splits = [part.numel() for part in parts] or [0] * lane.size
    operation = lane.start("alltoall", [source], [None], splits=splits, shapes=[(source.numel(),)])

    def finish() -> None:
        received = operation.received_splits()[root]
        if received != landing.dense.numel():
            raise MismatchError(f"scatter: rank {root} sent {received} elements, the output has {landing.dense.numel()}")
        landing.dense.copy_(from_dlpack(operation.outputs()[0]).view(landing.dense.shape))
        landing.finish()

    return operation, finish


def alltoall(lane: Lane, outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]) -> Started:
    """The n-th input goes to rank n, the n-th output comes from there; any sizes."""
    landings = [Landing(output) for output in outputs]
    parts = [to_engine_tensor(tensor).reshape(-1) for tensor in inputs]
    source = torch.cat(parts)
    operation = lane.start("alltoall", [source], [None], splits=[part.numel() for part in parts], shapes=[(source.numel(),)])
    return operation, lambda: _write_parts(operation, landings, "alltoall")


def alltoall_rows(
    lane: Lane, output: torch.Tensor, tensor: torch.Tensor, to_receive: Sequence[int], to_send: Sequence[int]
) -> Started:
    """Rows of the first dimension; no splits: equal parts."""
    landing = Landing(output)
    source = _distinct(to_engine_tensor(tensor), [landing.dense])
    sent = _elements(lane, "input", tensor, source, to_send)
    expected = _elements(lane, "output", output, landing.dense, to_receive)
    operation = lane.start("alltoall", [source], [None], splits=sent, shapes=[(source.numel(),)])

    def finish() -> None:
        received = operation.received_splits()
        if received != expected:
            raise MismatchError(f"all_to_all_single: ranks sent {received} elements, this rank has room for {expected}")
        landing.dense.copy_(from_dlpack(operation.outputs()[0]).view(landing.dense.shape))
        landing.finish()

    return operation, finish


def _elements(lane: Lane, what: str, tensor: torch.Tensor, dense: torch.Tensor, splits: Sequence[int]) -> list[int]:
    rows = tensor.shape[0] if tensor.dim() > 0 else 1
    if not splits:
        if rows % lane.size:
            raise InvalidArgumentError(
                f"all_to_all_single: {rows} rows of the {what} cannot be cut into {lane.size} parts; give splits"
            )
        splits = [rows // lane.size] * lane.size
    if len(splits) != lane.size or sum(splits) != rows:
        raise InvalidArgumentError(
            f"all_to_all_single: splits {list(splits)} for {lane.size} ranks and {rows} rows of the {what}"
        )
    row = dense.numel() // rows if rows else 0
    return [count * row for count in splits]
