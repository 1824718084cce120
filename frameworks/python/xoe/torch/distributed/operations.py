"""Collectives of torch.distributed as operations of the engine.

Each function starts the collective of its name. It returns the operation, and a function to call once that has completed
(None: there is nothing left to do). Tensors are this rank's; ``lane`` issues the operations of their group.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import torch
from torch.utils.dlpack import from_dlpack

from xoe import _core
from xoe.errors import InvalidArgumentError, MismatchError, UnavailableError, UnsupportedError
from xoe.torch.distributed.backward import Held
from xoe.torch.distributed.callbacks import Sequence as Operations
from xoe.torch.distributed.callbacks import current
from xoe.torch.gpu import choose_device, stream_of
from xoe.torch.sparse import SparseSum
from xoe.torch.tensors import DTYPES, restore, shares_memory, to_engine

Finish = Callable[[], None] | None
Started = tuple[_core.Operation | Held, Finish]

_NAMES = 1024  # reused in turn: the engine caches names, and new ones each time would miss its cache


class Lane:
    """Issues the operations of one group. The n-th matches the other ranks' n-th; if they differ, all ranks get an error. Those
    of callbacks are counted apart (callbacks.py).

    timeout: seconds to wait for ranks that have not issued an operation; then the group fails. 0: the engine's limit.
    """

    def __init__(self, engine: _core.Engine, process_set: int, rank: int, size: int, label: str, timeout: float) -> None:
        self.rank = rank
        self.size = size
        self.timeout = timeout
        self._engine: _core.Engine | None = engine
        self._process_set = process_set
        self._label = label
        self._sequence = Operations("", f" after {label}")

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
        dense_shape: Sequence[int] | None = None,
        device: str = "cpu",
        timeout: float | None = None,
    ) -> _core.Operation:
        """Starts an operation on dense tensors, which it treats as being of the given ``shapes``."""
        timeout = self.timeout if timeout is None else timeout
        request = _request(kind, reduction, prescale, root, self._process_set, timeout)
        submit = self._submission(kind, request, sources, results, shapes, splits, dense_shape, stream_of(device, sources))
        counts, number = self._count()
        try:
            return submit(self._name(number))
        except BaseException:
            if counts[self._label] == number + 1:  # a refusal must not shift this rank's operations against the others'
                counts[self._label] = number
            raise

    def hold(self, tensors: Sequence[torch.Tensor], reduction: str, prescale: float) -> Held:
        """An allreduce in place of dense tensors of the host: submitted later, it has its place among the others now."""
        request = _request("allreduce", reduction, prescale, 0, self._process_set, self.timeout)
        submit = self._submission("allreduce", request, tensors, tensors, None, None, None, None)
        _, number = self._count()
        return Held(functools.partial(submit, self._name(number)))

    def _count(self) -> tuple[dict[str, int], int]:
        """The counts of this thread's sequence, and the number of its next operation."""
        counts = self.sequence().counts
        number = counts.get(self._label, 0)
        counts[self._label] = number + 1
        return counts, number

    def _name(self, number: int) -> str:
        return f"{self._label}{self.sequence().after}.{number % _NAMES}"

    def _submission(
        self,
        kind: str,
        request: _core.Request,
        sources: Sequence[torch.Tensor],
        results: Sequence[torch.Tensor | None],
        shapes: Sequence[Sequence[int]] | None,
        splits: Sequence[int] | None,
        dense_shape: Sequence[int] | None,
        stream: int | None,
    ) -> Callable[[str], _core.Operation]:
        """What submits the operation under a name."""
        engine = self._engine
        if engine is None:
            raise UnavailableError(f"{kind}: the process group was destroyed")
        tensors = [
            (source.data_ptr(), 0 if result is None else result.data_ptr(), shape, DTYPES[source.dtype])
            for source, result, shape in zip(sources, results, shapes or [source.shape for source in sources], strict=True)
        ]
        keep = (list(sources), list(results))
        return lambda name: engine.submit(name, tensors, request, splits, keep, stream, dense_shape=dense_shape)

    def sequence(self) -> Operations:
        """Where this thread's operations are counted."""
        return current() or self._sequence

    def close(self) -> None:
        """Releases the engine."""
        self._engine = None


@functools.lru_cache(maxsize=1000)
def _request(kind: str, reduction: str, prescale: float, root: int, process_set: int, timeout: float) -> _core.Request:
    return _core.Request(
        _core.KINDS[kind],
        _core.REDUCTIONS[reduction],
        prescale,
        root=root,
        process_set=process_set,
        queue_same_name=True,
        timeout=timeout,
    )


class Output:
    """The memory for a tensor's result: the tensor's own where the engine can write to it, else a dense tensor to copy from."""

    def __init__(self, tensor: torch.Tensor, device: str = "cpu") -> None:
        self.tensor = tensor
        usable = tensor.device.type == device and tensor.is_contiguous() and not (tensor.is_conj() or tensor.is_neg())
        memory_device = tensor.device if tensor.device.type == device else device
        memory = tensor if usable else torch.empty(tensor.shape, dtype=tensor.dtype, device=memory_device)
        self.dense = to_engine(memory, None, device)
        self.in_place = usable and shares_memory(self.dense, tensor)

    def finish(self, result: torch.Tensor | None = None) -> None:
        """Copies the result (its elements; None: they are in ``dense``) to the tensor, if it is not there already."""
        if result is not None:
            self.dense.copy_(result.view(self.dense.shape))
        if not self.in_place:
            self.tensor.copy_(restore(self.dense, torch.empty(0, dtype=self.tensor.dtype, device=self.dense.device)))


def _finish(targets: Sequence[Output]) -> Finish:
    left = [target for target in targets if not target.in_place]
    if not left:
        return None

    def finish() -> None:
        for target in left:
            target.finish()

    return finish


def _copy_back(dense: Sequence[torch.Tensor], tensors: Sequence[torch.Tensor]) -> Finish:
    pairs = [(c, t) for c, t in zip(dense, tensors, strict=True) if not shares_memory(c, t)]
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
    """A source that no result overwrites: FSDP gathers from its own part of the output."""
    return source.clone() if any(_overlap(source, result) for result in results) else source


def _write_parts(operation: _core.Operation, targets: Sequence[Output], what: str) -> None:
    """Copies each rank's part of the result, which the engine holds one after the other, to its own tensor."""
    received = operation.received_splits()
    expected = [target.dense.numel() for target in targets]
    if received != expected:
        raise MismatchError(f"{what}: ranks sent {received} elements, this rank has room for {expected}")
    for target, part in zip(targets, from_dlpack(operation.outputs()[0]).split_with_sizes(received), strict=True):
        target.finish(part)


# ---- reductions


def allreduce_after_backward(lane: Lane, tensors: Sequence[torch.Tensor], reduction: str, prescale: float) -> Started:
    """In place, dense tensors of the host, submitted once the backward that runs has ended."""
    return lane.hold(tensors, reduction, prescale), None


def allreduce(lane: Lane, tensors: Sequence[torch.Tensor], reduction: str, prescale: float) -> Started:
    """In place."""
    device = choose_device(tensors, reduction)
    dense = [to_engine(tensor, reduction, device) for tensor in tensors]
    operation = lane.start("allreduce", dense, dense, reduction=reduction, prescale=prescale, device=device)
    return operation, _copy_back(dense, tensors)


def reduce(lane: Lane, tensors: Sequence[torch.Tensor], reduction: str, prescale: float, root: int) -> Started:
    """In place at the root; the other ranks' tensors do not change."""
    if lane.rank == root:
        return allreduce(lane, tensors, reduction, prescale)
    device = choose_device(tensors, reduction)
    dense = [to_engine(tensor, reduction, device) for tensor in tensors]
    unused = [torch.empty_like(c, requires_grad=False) for c in dense]
    return lane.start("allreduce", dense, unused, reduction=reduction, prescale=prescale, device=device), None


def reduce_scatter(
    lane: Lane, outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor], reduction: str, prescale: float
) -> Started:
    """Each input is divided into one equal part per rank; this rank's reduced part goes to the output."""
    device = choose_device([*inputs, *outputs], reduction)
    dense = [to_engine(tensor, reduction, device) for tensor in inputs]
    targets = [Output(output, device) for output in outputs]
    if device != "cpu":  # results on a GPU need memory of their own
        dense = [_distinct(source, [target.dense]) for source, target in zip(dense, targets, strict=True)]
    for source, target in zip(dense, targets, strict=True):
        if source.numel() != lane.size * target.dense.numel() or source.dtype != target.dense.dtype:
            raise InvalidArgumentError(
                f"reduce_scatter: an input of {list(source.shape)} {source.dtype} does not have {lane.size} parts of"
                f" {list(target.tensor.shape)} {target.tensor.dtype}"
            )
    shapes = [(lane.size, target.dense.numel()) for target in targets]
    # An output that is a part of its input is copied at the end.
    direct = [not _overlap(source, target.dense) for source, target in zip(dense, targets, strict=True)]
    results = [target.dense if apart else None for target, apart in zip(targets, direct, strict=True)]
    operation = lane.start(
        "reduce_scatter", dense, results, reduction=reduction, prescale=prescale, shapes=shapes, device=device
    )
    if all(direct):
        return operation, _finish(targets)

    def finish() -> None:
        for output, target, is_direct in zip(operation.outputs(), targets, direct, strict=True):
            target.finish(None if is_direct else from_dlpack(output))

    return operation, finish


def reduce_scatter_uneven(
    lane: Lane, output: torch.Tensor, inputs: Sequence[torch.Tensor], reduction: str, prescale: float
) -> Started:
    """Parts of different sizes, one for each rank: every rank reduces all of them."""
    whole = torch.cat([to_engine(tensor, reduction).reshape(-1) for tensor in inputs])
    target = Output(output)
    part = to_engine(inputs[lane.rank], reduction).numel()
    if part != target.dense.numel():
        raise InvalidArgumentError(
            f"reduce_scatter: the part for this rank has {list(inputs[lane.rank].shape)}, the output {list(output.shape)}"
        )
    first = sum(to_engine(tensor).numel() for tensor in inputs[: lane.rank])
    operation = lane.start("allreduce", [whole], [whole], reduction=reduction, prescale=prescale)
    return operation, lambda: target.finish(whole[first : first + part])


def allreduce_sparse(lane: Lane, tensor: torch.Tensor, reduction: str, prescale: float) -> Started:
    """In place, a sparse COO tensor."""
    if reduction not in ("sum", "average"):
        raise UnsupportedError(f"sparse tensors support SUM and AVG, not {reduction}")
    given = SparseSum(tensor if prescale == 1 else tensor * prescale)
    operation = lane.start("sparse_allreduce", given.parts, [None, None], dense_shape=given.shape)

    def finish() -> None:
        result = given.result(operation.outputs())
        tensor.copy_(result / lane.size if reduction == "average" else result)

    return operation, finish


# ---- data movement


def broadcast(lane: Lane, tensors: Sequence[torch.Tensor], root: int) -> Started:
    """Copies the root's tensors to those of all ranks."""
    device = choose_device(tensors)
    dense = [to_engine(tensor, None, device) for tensor in tensors]
    return lane.start("broadcast", dense, dense, root=root, device=device), _copy_back(dense, tensors)


def allgather(lane: Lane, outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]) -> Started:
    """Concatenates all ranks' inputs in each output."""
    device = choose_device([*inputs, *outputs])
    targets = [Output(output, device) for output in outputs]
    dense = [_distinct(to_engine(tensor, None, device), [target.dense]) for tensor, target in zip(inputs, targets, strict=True)]
    for source, target in zip(dense, targets, strict=True):
        if target.dense.numel() != lane.size * source.numel() or source.dtype != target.dense.dtype:
            raise InvalidArgumentError(
                f"allgather: {lane.size} inputs of {list(source.shape)} {source.dtype} do not fill an output of"
                f" {list(target.tensor.shape)} {target.tensor.dtype}"
            )
    # One row each: the engine then checks that all ranks give equally much, so no result exceeds its memory.
    shapes = [(1, source.numel()) for source in dense]
    operation = lane.start("allgather", dense, [target.dense for target in targets], shapes=shapes, device=device)
    return operation, _finish(targets)


def allgather_parts(lane: Lane, outputs: Sequence[torch.Tensor], tensor: torch.Tensor) -> Started:
    """Collects each rank's input in an output of its own; sizes may differ."""
    targets = [Output(output) for output in outputs]
    source = to_engine(tensor)
    operation = lane.start("allgather", [source], [None], shapes=[(source.numel(),)])
    return operation, lambda: _write_parts(operation, targets, "allgather")


def gather(lane: Lane, outputs: Sequence[torch.Tensor], tensor: torch.Tensor, root: int) -> Started:
    """Collects all ranks' inputs in the root's outputs."""
    targets = [Output(output) for output in outputs]
    source = to_engine(tensor)
    splits = [source.numel() if rank == root else 0 for rank in range(lane.size)]
    operation = lane.start("alltoall", [source], [None], splits=splits, shapes=[(source.numel(),)])
    return operation, (lambda: _write_parts(operation, targets, "gather")) if lane.rank == root else None


def scatter(lane: Lane, output: torch.Tensor, inputs: Sequence[torch.Tensor], root: int) -> Started:
    """Sends the root's n-th input to the output of rank n."""
    target = Output(output)
    parts = [to_engine(tensor).reshape(-1) for tensor in inputs]
    source = torch.cat(parts) if parts else target.dense.new_empty(0)
    splits = [part.numel() for part in parts] or [0] * lane.size
    operation = lane.start("alltoall", [source], [None], splits=splits, shapes=[(source.numel(),)])

    def finish() -> None:
        received = operation.received_splits()[root]
        if received != target.dense.numel():
            raise MismatchError(f"scatter: rank {root} sent {received} elements, the output has {target.dense.numel()}")
        target.finish(from_dlpack(operation.outputs()[0]))

    return operation, finish


def alltoall(lane: Lane, outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]) -> Started:
    """Sends the n-th input to rank n, and receives the n-th output from there; any sizes."""
    targets = [Output(output) for output in outputs]
    parts = [to_engine(tensor).reshape(-1) for tensor in inputs]
    source = torch.cat(parts)
    operation = lane.start("alltoall", [source], [None], splits=[part.numel() for part in parts], shapes=[(source.numel(),)])
    return operation, lambda: _write_parts(operation, targets, "alltoall")


def alltoall_rows(
    lane: Lane, output: torch.Tensor, tensor: torch.Tensor, to_receive: Sequence[int], to_send: Sequence[int]
) -> Started:
    """Exchanges rows of the first dimension; without splits, in equal parts."""
    target = Output(output)
    source = _distinct(to_engine(tensor), [target.dense])
    sent = _elements(lane, "input", tensor, source, to_send)
    expected = _elements(lane, "output", output, target.dense, to_receive)
    operation = lane.start("alltoall", [source], [None], splits=sent, shapes=[(source.numel(),)])

    def finish() -> None:
        received = operation.received_splits()
        if received != expected:
            raise MismatchError(f"all_to_all_single: ranks sent {received} elements, this rank has room for {expected}")
        target.finish(from_dlpack(operation.outputs()[0]))

    return operation, finish


def _elements(lane: Lane, what: str, tensor: torch.Tensor, dense: torch.Tensor, splits: Sequence[int]) -> list[int]:
    rows = tensor.shape[0] if tensor.dim() > 0 else 1
    if not splits:
        if rows % lane.size:
            raise InvalidArgumentError(
                f"all_to_all_single: {rows} rows of the {what} cannot be divided into {lane.size} equal parts; pass splits"
            )
        splits = [rows // lane.size] * lane.size
    if len(splits) != lane.size or sum(splits) != rows:
        raise InvalidArgumentError(
            f"all_to_all_single: splits {list(splits)} for {lane.size} ranks and {rows} rows of the {what}"
        )
    row = dense.numel() // rows if rows else 0
    return [count * row for count in splits]
