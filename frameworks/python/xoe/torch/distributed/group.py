"""A process group of torch.distributed whose collectives run on the engine."""

from __future__ import annotations

import atexit
import os
import weakref
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.distributed_c10d as _c10d
from torch._C import _distributed_c10d
from torch._C._distributed_c10d import PrefixStore

from xoe.errors import HorovodInternalError, InvalidArgumentError, OperationTimeoutError, PeerLostError, UnsupportedError
from xoe.initialize import shutdown
from xoe.torch.distributed import operations as start
from xoe.torch.distributed.backward import EndOfBackward, is_bucket
from xoe.torch.distributed.completer import Completer
from xoe.torch.distributed.initialize import operation_timeout
from xoe.torch.distributed.members import Members, make_engine
from xoe.torch.distributed.monitored_barrier import MonitoredBarrier
from xoe.torch.distributed.point_to_point import ANY_RANK, PointToPoint
from xoe.torch.distributed.shared_storages import SharedStorages
from xoe.torch.distributed.untraced import untraced, untraced_methods
from xoe.torch.distributed.work import Waitable, Work, forget
from xoe.torch.gpu import waits_in_stream
from xoe.torch.tensors import restore, shares_memory, to_engine

_ProcessGroup: Any = _distributed_c10d.ProcessGroup
_Op = dist.ReduceOp
Tensors = list[torch.Tensor]
_NO_TIME = timedelta(0)

_REDUCTIONS = (
    (_Op.SUM, "sum"),
    (_Op.AVG, "average"),
    (_Op.MIN, "min"),
    (_Op.MAX, "max"),
    (_Op.PRODUCT, "product"),
)


def reduction_of(options: Any) -> tuple[str, float]:
    """The engine's reduction and the factor of the input, for options, a ReduceOp, or None (the sum)."""
    op = getattr(options, "reduceOp", options)
    if op is None:
        return "sum", 1.0
    for known, name in _REDUCTIONS:
        if op == known:
            return name, 1.0
    if op == _Op.PREMUL_SUM:
        factor = getattr(op, "factor", None)
        if isinstance(factor, torch.Tensor) and factor.numel() == 1:
            factor = factor.item()
        if isinstance(factor, (int, float)):
            return "sum", float(factor)
        raise UnsupportedError("this PyTorch does not reveal the factor of PREMUL_SUM; multiply the tensor before a SUM")
    raise UnsupportedError(
        f"the backend xoe does not support {op}, only SUM, AVG, MIN, MAX, PRODUCT and PREMUL_SUM; for bits use a group"
        " of Gloo: new_group(backend='gloo')"
    )


def _root(options: Any) -> int:
    return int(getattr(options, "rootRank", options or 0))


def _list(tensors: Any) -> Tensors:
    return [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)


def _one(tensors: Any, what: str) -> Any:
    """The only element: PyTorch passes a list with one element per device, and a process has one device."""
    if len(tensors) != 1:
        raise InvalidArgumentError(f"{what}: expected the tensors of one device, got {len(tensors)}")
    return tensors[0]


@untraced_methods
class Group(_ProcessGroup):  # type: ignore[misc]
    """A process group on a process set of the world's engine, created by ``torch.distributed``. Methods return works, and do
    not block.

    Tensors on other devices, and tensors that are not dense, are copied. Any thread may call; all ranks must make the same
    calls in the same order.
    """

    def __init__(self, store: Any, rank: int, size: int, name: str, timeout: timedelta, members: Members | None) -> None:
        """members: None: :meth:`_attach` comes later."""
        super().__init__(rank, size)
        self._store = store
        self._name = name
        self._timeout = timeout
        self._description = ""
        self._alone = False
        self._batch: list[Work] | None = None
        self._aborted = False
        self.error: HorovodInternalError | None = None  # the first that broke the group
        self._completer = Completer(f"xoe group {name}")
        self._waits_in_stream = os.environ.get("XOE_GPU_WAIT") == "stream"
        if members is not None:
            self._attach(members, rank, size)
        _groups.add(self)

    def _attach(self, members: Members, rank: int, size: int) -> None:
        """Makes all that depends on the members."""
        self._members = members
        label = f"torch {members.name}"
        self._lane = start.Lane(members.engine, members.process_set, rank, size, label, operation_timeout(self._timeout))
        self._one_host = members.engine.topology()[5] == 1
        self._shared = SharedStorages(members.engine)
        self._end_of_backward = EndOfBackward(failed=self._shared.close)
        self._messages = PointToPoint(members.engine, members.process_set, members.name, self._timeout)
        self._monitored = MonitoredBarrier(members.store, rank, size)

    def _work(
        self,
        operations: Sequence[Waitable],
        finish: start.Finish,
        result: Tensors,
        source: Callable[[], int] | None = None,
        backward: EndOfBackward | None = None,
    ) -> Work:
        in_stream = self._waits_in_stream and finish is None and waits_in_stream(operations, result)
        device = result[0].device if in_stream else None
        work = Work(operations, finish, result, self._completer, self._lane.sequence(), source, backward, device)
        work.on_error = self._note_error
        if self._batch is not None:
            self._batch.append(work)
        return work

    def _note_error(self, error: Exception) -> None:
        if isinstance(error, HorovodInternalError) and self.error is None and not self._aborted:
            self.error = error

    def _run(
        self, function: Callable[..., start.Started], result: Tensors, *arguments: Any, backward: EndOfBackward | None = None
    ) -> Work:
        if not self._alone:
            self._check_alone()
        operation, finish = function(self._lane, *arguments)
        return self._work([operation], finish, result, backward=backward)

    def _reduce_bucket(self, tensor: torch.Tensor, reduction: str, prescale: float) -> Work:
        """A bucket of the reducer of DistributedDataParallel, during backward."""
        bucket = self._shared.find(tensor)
        if bucket is None:  # in its first step, a static graph waits for buckets before it ends
            return self._run(start.allreduce, [tensor], [tensor], reduction, prescale)
        begin = start.allreduce_after_backward if self._one_host else start.allreduce
        return self._run(begin, [tensor], [bucket], reduction, prescale, backward=self._end_of_backward)

    def _check_alone(self) -> None:
        config = str(_c10d._world.pg_backend_config.get(self, ""))
        others = {pair.split(":")[-1] for pair in config.split(",") if pair} - {"xoe"}
        if others:
            raise UnsupportedError(
                f"a group of the backend xoe serves all devices, and cannot be combined with {', '.join(sorted(others))};"
                " create a group for each: new_group(backend=...)"
            )
        self._alone = self in _c10d._world.pg_map

    # ---- reductions

    def allreduce(self, tensors: Any, opts: Any = None) -> Work:
        """In place."""
        given = _list(tensors)
        if given[0].is_sparse:
            return self._allreduce_sparse(given, opts)
        if len(given) == 1 and is_bucket(given[0]):
            return self._reduce_bucket(given[0], *reduction_of(opts))
        return self._run(start.allreduce, given, given, *reduction_of(opts))

    def allreduce_coalesced(self, tensors: Any, opts: Any = None) -> Work:
        """Several tensors that complete together."""
        return self.allreduce(tensors, opts)

    @untraced
    def average(self, tensor: torch.Tensor) -> Work:
        """Averages the tensor in place."""
        if is_bucket(tensor):
            return self._reduce_bucket(tensor, "average", 1.0)
        return self._run(start.allreduce, [tensor], [tensor], "average", 1.0)

    def _allreduce_sparse(self, tensors: Tensors, opts: Any) -> Work:
        tensor = _one(tensors, "allreduce of sparse tensors")
        return self._run(start.allreduce_sparse, tensors, tensor, *reduction_of(opts))

    def reduce(self, tensors: Any, opts: Any = None) -> Work:
        """In place at the root."""
        given = _list(tensors)
        return self._run(start.reduce, given, given, *reduction_of(opts), _root(opts))

    def reduce_scatter(self, output_tensors: Any, input_tensors: Any, opts: Any = None) -> Work:
        """A list of inputs, one for each rank."""
        if isinstance(output_tensors, torch.Tensor):
            output_tensors, input_tensors = [output_tensors], [input_tensors]
        output = _one(output_tensors, "reduce_scatter")
        inputs = _list(_one(input_tensors, "reduce_scatter"))
        if len(inputs) != self.size():
            raise InvalidArgumentError(f"reduce_scatter: {len(inputs)} inputs for {self.size()} ranks")
        if any(tensor.numel() != output.numel() for tensor in inputs):
            return self._run(start.reduce_scatter_uneven, [output], output, inputs, *reduction_of(opts))
        whole = torch.cat([tensor.reshape(-1) for tensor in inputs])
        return self._run(start.reduce_scatter, [output], [output], [whole], *reduction_of(opts))

    def _reduce_scatter_base(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> Work:
        return self._run(start.reduce_scatter, [output], [output], [input], *reduction_of(opts))

    def reduce_scatter_tensor_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        """Several tensors that complete together."""
        return self._run(start.reduce_scatter, list(outputs), list(outputs), list(inputs), *reduction_of(opts))

    # ---- data movement

    def broadcast(self, tensors: Any, opts: Any = None) -> Work:
        """From the root to all."""
        given = _list(tensors)
        return self._run(start.broadcast, given, given, _root(opts))

    def allgather(self, output_tensors: Any, input_tensors: Any, opts: Any = None) -> Work:
        """A list of outputs, one for each rank."""
        if isinstance(input_tensors, torch.Tensor):
            output_tensors, input_tensors = [output_tensors], [input_tensors]
        outputs = _list(_one(output_tensors, "allgather"))
        if len(outputs) != self.size():
            raise InvalidArgumentError(f"allgather: {len(outputs)} outputs for {self.size()} ranks")
        return self._run(start.allgather_parts, outputs, outputs, _one(input_tensors, "allgather"))

    def allgather_coalesced(self, output_lists: Any, input_list: Any, opts: Any = None) -> Work:
        """Several inputs; ``output_lists`` has a list for each rank, or for each input."""
        lists, inputs = list(output_lists), list(input_list)
        by_input = [list(of_input) for of_input in zip(*lists, strict=True)] if len(lists[0]) == len(inputs) else lists
        parts = [start.allgather_parts(self._lane, outputs, one) for outputs, one in zip(by_input, inputs, strict=True)]
        works = [self._work([operation], finish, []) for operation, finish in parts]
        return self._work(works, None, [tensor for outputs in by_input for tensor in outputs])

    def _allgather_base(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> Work:
        return self._run(start.allgather, [output], [output], [input])

    def allgather_into_tensor_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        """Several tensors that complete together."""
        return self._run(start.allgather, list(outputs), list(outputs), list(inputs))

    def gather(self, output_tensors: Any, input_tensors: Any, opts: Any = None) -> Work:
        """To the root; other ranks pass no outputs."""
        root = _root(opts)
        outputs = _list(_one(output_tensors, "gather")) if self.rank() == root else []
        if self.rank() == root and len(outputs) != self.size():
            raise InvalidArgumentError(f"gather: {len(outputs)} outputs for {self.size()} ranks")
        return self._run(start.gather, outputs, outputs, _one(_list(input_tensors), "gather"), root)

    def scatter(self, output_tensors: Any, input_tensors: Any, opts: Any = None) -> Work:
        """From the root; other ranks pass no inputs."""
        root = _root(opts)
        inputs = _list(_one(input_tensors, "scatter")) if self.rank() == root else []
        if self.rank() == root and len(inputs) != self.size():
            raise InvalidArgumentError(f"scatter: {len(inputs)} inputs for {self.size()} ranks")
        output = _one(_list(output_tensors), "scatter")
        return self._run(start.scatter, [output], output, inputs, root)

    def alltoall(self, output_tensors: Any, input_tensors: Any, opts: Any = None) -> Work:
        """The n-th input goes to rank n."""
        outputs, inputs = list(output_tensors), list(input_tensors)
        if len(outputs) != self.size() or len(inputs) != self.size():
            raise InvalidArgumentError(f"alltoall: {len(inputs)} inputs and {len(outputs)} outputs for {self.size()} ranks")
        return self._run(start.alltoall, outputs, outputs, inputs)

    def alltoall_base(
        self, output: torch.Tensor, input: torch.Tensor, output_splits: Any, input_splits: Any, opts: Any = None
    ) -> Work:
        """Exchanges rows of the first dimension, in parts of given or equal length."""
        return self._run(start.alltoall_rows, [output], output, input, list(output_splits), list(input_splits))

    def barrier(self, opts: Any = None) -> Work:
        """Completes when all ranks have called it."""
        timeout = getattr(opts, "timeout", _NO_TIME)  # negative: the group's
        own = {} if timeout <= _NO_TIME else {"timeout": timeout.total_seconds()}
        return self._run(lambda lane: (lane.start("barrier", **own), None), [])

    def monitored_barrier(self, timeout: timedelta | None = None, wait_all_ranks: bool = False) -> None:
        """A barrier on the host, after which the first rank knows who is missing."""
        self._monitored.wait(self._timeout if timeout is None else timeout, wait_all_ranks)

    # ---- point to point

    def send(self, tensors: Any, dst_rank: int, tag: int = 0) -> Work:
        """To one rank."""
        tensor = _one(_list(tensors), "send")
        return self._work([self._messages.send(to_engine(tensor), dst_rank, tag)], None, [tensor])

    def recv(self, tensors: Any, src_rank: int, tag: int = 0) -> Work:
        """From one rank."""
        tensor = _one(_list(tensors), "recv")
        dense = to_engine(tensor)
        message = self._messages.receive(dense, src_rank, tag)

        def finish() -> None:
            if not shares_memory(dense, tensor):
                tensor.copy_(restore(dense, tensor))

        return self._work([message], finish, [tensor], lambda: self._messages.source(message))

    def recv_anysource(self, tensors: Any, tag: int = 0) -> Work:
        """From whichever rank sends first."""
        return self.recv(tensors, ANY_RANK, tag)

    # ---- batches: operations start at once, and a common work waits for all of them

    def _start_coalescing(self, device: Any = None) -> None:
        self._batch = []

    def _end_coalescing(self, device: Any = None) -> Work:
        batch, self._batch = self._batch or [], None
        return self._work(batch, None, [one for work in batch for one in work._result])

    # ---- properties

    def getBackendName(self) -> str:  # noqa: N802
        """Its name in ``init_process_group``."""
        return "xoe"

    def getGroupName(self) -> str:  # noqa: N802
        """PyTorch's name of this group."""
        return self._name

    def getGroupDesc(self) -> str:  # noqa: N802
        """The program's description of this group."""
        return self._description

    def _set_group_name(self, name: str) -> None:
        self._name = name

    def _set_group_desc(self, description: str) -> None:
        self._description = description

    setGroupName = _set_group_name  # noqa: N815
    setGroupDesc = _set_group_desc  # noqa: N815
    group_name = property(getGroupName)
    group_desc = property(getGroupDesc)
    supports_splitting = True
    supports_coalescing = False
    supports_reconfigure = False

    @property
    def _device_types(self) -> list[torch.device]:
        return [torch.device("cpu"), torch.device("cuda")]

    def _get_backend(self, device: Any) -> Group:
        return self

    def set_timeout(self, timeout: timedelta) -> None:
        """How long operations from now on wait for ranks."""
        self._timeout = timeout
        self._lane.timeout = operation_timeout(timeout)
        self._messages.set_timeout(timeout)

    def split_group(
        self,
        ranks: list[int],
        timeout: timedelta | None = None,
        opts: Any = None,
        group_name: str | None = None,
        group_desc: str | None = None,
        device_types: Any = None,
    ) -> Group | None:
        """A group of some ranks of this one; all of them call it, each with its own part. None: this rank is in no part."""
        if self.rank() not in ranks:
            return None
        job_ranks = [_c10d.get_global_rank(self, rank) for rank in ranks]
        timeout = timeout or self._timeout
        members = make_engine(job_ranks, timeout)
        group = Group(
            PrefixStore(f"{group_name}/", self._store), ranks.index(self.rank()), len(ranks), str(group_name), timeout, members
        )
        group._description = group_desc or ""
        return group

    def get_group_store(self) -> Any:
        """The store that the group was created with."""
        return self._store

    def abort(self) -> None:
        """Fails all pending operations of the group's engine, here and at the peers."""
        self._aborted = True
        self._members.abort()

    def get_error(self) -> Any:
        """PyTorch's ErrorType for what has broken the group: REMOTE_ERROR where a member was lost, TIMEOUT, COMM_ERROR.
        SUCCESS: nothing has, or this process's own :meth:`abort`."""
        kinds = _distributed_c10d.ErrorType
        if self.error is None:
            return kinds.SUCCESS
        if isinstance(self.error, PeerLostError):
            return kinds.REMOTE_ERROR
        return kinds.TIMEOUT if isinstance(self.error, OperationTimeoutError) else kinds.COMM_ERROR

    def shutdown(self) -> None:
        """Closes the group, and the engine if that was started for it."""
        close, self._members.close = self._members.close, None
        if close is not None:
            close()
        self._completer.stop()
        self._shared.close()
        self._lane.close()

    # PyTorch's newer names
    all_gather_single = _allgather_base
    all_gather_single_coalesced = allgather_into_tensor_coalesced
    reduce_scatter_single = _reduce_scatter_base
    reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced
    all_to_all_single = alltoall_base
    start_coalescing = _start_coalescing
    end_coalescing = _end_coalescing


_groups: weakref.WeakSet[Group] = weakref.WeakSet()


def first_error() -> HorovodInternalError | None:
    """What has broken one of the groups that have not been destroyed."""
    groups = (group for group in list(_c10d._world.pg_map) if isinstance(group, Group))
    return next((group.error for group in groups if group.error is not None), None)


def _leave() -> None:
    """At exit no thread may be in the engine when the interpreter ends, and PyTorch never releases groups."""
    if _groups:
        shutdown()  # fails pending operations
        for group in list(_groups):
            group.shutdown()
        forget()


atexit.register(_leave)
