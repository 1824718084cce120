"""Training steps whose weights do not depend on the ranks, bit for bit."""

from __future__ import annotations

import gc
import hashlib
import random
import warnings
import weakref
from collections.abc import Iterator
from types import TracebackType
from typing import Any

import torch
import torch.utils.dlpack

from xoe import _core
from xoe import world as _world
from xoe.errors import InvalidArgumentError, UnsupportedError
from xoe.objects import allgather_object
from xoe.torch.override import Wrapping

# Live objects by number: two at a time must not use the same names of operations.
_alive: weakref.WeakValueDictionary[int, LogicalShards] = weakref.WeakValueDictionary()


class LogicalShards:
    """Steps over a batch that consists of logical shards, in place of one part for each rank::

        logical = xoe.torch.LogicalShards(model, optimizer, shards=8, seed=1)
        for number in range(steps):
            with logical.step(number) as step:
                for shard in step.shards():
                    images, labels = batch_of(number, shard)
                    step.backward(functional.cross_entropy(model(images), labels))
            print(step.loss)

    Each rank computes the shards of a contiguous range, one after the other. Gradients are their mean, added along a fixed
    binary tree over shards; every shard begins with the buffers that the step began with (those of batch norm, for example),
    which then move by the mean of the shards' changes; and random numbers are those of (seed, step, shard). So 1, 2, 3 or more
    ranks, and ranks that are lost, leave and join in :func:`xoe.torch.elastic.run`, give the same weights to the bit, as long
    as the images of a shard depend on ``number`` and ``shard`` alone, every shard's tensors have the same shapes in each step,
    and the ranks compute with the same number of threads on the same kind of processor.

    model: with the same parameters on all ranks, as ``broadcast_parameters`` leaves them; all of them, and its buffers of
        floating-point numbers, are dense, float32 and on the CPU.
    optimizer: a plain one of PyTorch, not a ``DistributedOptimizer``; its parameters are the model's, or some of them.
    shards: at least the most ranks that the job may have; few for each rank cost least.
    seed: of random numbers; the same on all ranks.

    One thread at a time. InvalidArgumentError: fewer shards than ranks, ranks that differ in ``torch.get_num_threads()``, in
    ``shards`` or in the number of parameters, or a DistributedOptimizer. UnsupportedError: other types or devices.
    """

    def __init__(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer, shards: int, seed: int = 0) -> None:
        if isinstance(optimizer, Wrapping):
            raise InvalidArgumentError(
                "LogicalShards takes the plain optimizer: it sums gradients by shards, and a DistributedOptimizer by ranks"
            )
        if shards < 1:
            raise InvalidArgumentError(f"shards is {shards}; it must be at least 1")
        self.model = model
        self.optimizer = optimizer
        self.shards = shards
        self.seed = seed
        if _alive:
            gc.collect()  # an object that is garbage on every rank must not be alive on some
        number = next(n for n in range(len(_alive) + 1) if n not in _alive)
        _alive[number] = self
        self._name = f"logical shards {number}" if number else "logical shards"
        self._world: Any = None
        self._sum: _core.ShardSum | None = None
        self._parameters: list[torch.Tensor] = []
        self._buffers: list[torch.Tensor] = []  # of floating-point numbers
        self._others: list[torch.Tensor] = []  # such as num_batches_tracked

    def step(self, number: int) -> ShardStep:
        """A context for one step, which gives a :class:`ShardStep`; at its end gradients are summed, and the optimizer steps.

        number: of the step, from 0; the same on all ranks. Collective. Where the block raises, or a rank is lost, the step has
        not been: weights and buffers are as before.
        """
        return ShardStep(self, number)

    @property
    def mine(self) -> range:
        """The shards of this rank, of the ranks that there are now."""
        return range(*self._of_this_world().range())

    def positions(self, number: int, shard: int, batch: int) -> range:
        """The places in the order of a data set that a shard takes in a step, where each takes ``batch`` of them: the shards
        of a step one after the other, and the steps, too. With a permutation of a data set of ``n`` records for each epoch,
        place ``p`` is record ``order_of_epoch(p // n)[p % n]``."""
        first = (number * self.shards + shard) * batch
        return range(first, first + batch)

    def _of_this_world(self) -> _core.ShardSum:
        """The sum over the ranks that there are now; made by all of them together."""
        if self._sum is None or not _world.is_current(self._world):
            self._take_stock()
            world = _world.current()
            _compare_processors()
            values = sum(tensor.numel() for tensor in self._parameters + self._buffers) + 1  # the loss
            self._sum = _core.ShardSum(world.engine, self._name, self.shards, values, 1 / self.shards)
            self._world = world
        return self._sum

    def _take_stock(self) -> None:
        names = {id(p): name for name, p in self.model.named_parameters()}
        listed = [p for group in self.optimizer.param_groups for p in group["params"] if p.requires_grad]
        self._parameters = list({id(p): p for p in listed}.values())
        buffers = dict(self.model.named_buffers())
        self._buffers = [buffer for buffer in buffers.values() if buffer.is_floating_point()]
        self._others = [buffer for buffer in buffers.values() if not buffer.is_floating_point()]
        told = [(names.get(id(p), "a parameter"), p) for p in self._parameters]
        for name, tensor in [*told, *((name, b) for name, b in buffers.items() if b.is_floating_point())]:
            if tensor.dtype != torch.float32 or not tensor.is_cpu or tensor.layout != torch.strided or not _is_dense(tensor):
                raise UnsupportedError(
                    f"LogicalShards: {name} is {tensor.dtype} on {tensor.device}; it must be dense torch.float32 on cpu"
                )


class ShardStep:
    """One step of :class:`LogicalShards`, which makes it."""

    number: int
    """Of the step."""
    loss: float
    """The mean of the losses that :meth:`backward` was given, over all shards of all ranks; known after :meth:`reduce`, and so
    after the block."""
    seed: int
    """Of the shard that the loop is at, from 0 to 2**63 - 1: for generators other than those of torch and random."""

    def __init__(self, logical: LogicalShards, number: int) -> None:
        self.number = number
        self._logical = logical
        self._shard: int | None = None  # that has had no backward yet
        self._reduced = False

    def __enter__(self) -> ShardStep:
        logical = self._logical
        self._sum = logical._of_this_world()
        self._sum.reset()
        self._drop_gradients()
        with torch.no_grad():
            self._begun = [buffer.clone() for buffer in (*logical._buffers, *logical._others)]
        self._random = torch.get_rng_state(), random.getstate()
        return self

    def shards(self) -> Iterator[int]:
        """The shards of this rank, to be computed in this order. At each the model's buffers are as when the step began, and
        the random numbers of torch and of Python's ``random`` are the shard's own; both go on as before after the block."""
        for shard in range(*self._sum.range()):
            self._begin(shard)
            yield shard
            if self._shard is not None:
                raise RuntimeError(f"step.backward() has not been called for shard {shard}")

    def split(self, *tensors: torch.Tensor) -> Iterator[tuple[Any, ...]]:
        """As :meth:`shards`, with each shard's part of tensors that hold those of this rank's shards, one shard after the other
        along their first dimension, as an ``ImageDataset`` with ``shards`` gives them: ``for shard, images, labels in
        step.split(images, labels)``. The parts are copies, since how a tensor lies in memory may decide bits."""
        begin, end = self._sum.range()
        for tensor in tensors:
            if len(tensor) % (end - begin) != 0:
                raise InvalidArgumentError(f"{len(tensor)} rows are not equal parts for {end - begin} shards of this rank")
        for shard in self.shards():
            parts = (tensor.chunk(end - begin)[shard - begin] for tensor in tensors)
            yield shard, *(part.clone() for part in parts)

    def backward(self, loss: torch.Tensor) -> None:
        """Computes the gradients of the shard's mean loss, and takes them from the parameters. Once for each shard."""
        if self._shard is None:
            raise RuntimeError("step.backward() is called once for each shard, in a loop over step.shards()")
        loss.backward()  # type: ignore[no-untyped-call]
        with torch.no_grad():
            self._take(loss.detach())
        self._shard = None

    def reduce(self) -> None:
        """Sums the gradients, to look at them or to clip them, before the block ends and the optimizer steps; ``.grad`` then is
        the mean over all shards, good until the next step. The end of the block calls it otherwise. Collective."""
        if self._reduced:
            return
        values = torch.utils.dlpack.from_dlpack(self._sum.wait()).view(torch.float32)
        logical = self._logical
        offset = 0
        with torch.no_grad():
            for p in logical._parameters:
                p.grad = values.as_strided(p.shape, p.stride(), offset)
                offset += p.numel()
            for buffer, begun in zip(logical._buffers, self._begun, strict=False):
                buffer.copy_(begun + values.as_strided(buffer.shape, buffer.stride(), offset))
                offset += buffer.numel()
        self.loss = values[offset].item()
        self._reduced = True

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if kind is None:
                self.reduce()
                self._logical.optimizer.step()
                _world.current().engine.note_step()
        except BaseException:
            self._undo()
            raise
        finally:
            torch.set_rng_state(self._random[0])
            random.setstate(self._random[1])
            if kind is not None:
                self._undo()

    def _undo(self) -> None:
        self._sum.reset()
        self._begin_buffers()
        self._drop_gradients()

    def _drop_gradients(self) -> None:
        for p in self._logical._parameters:
            p.grad = None

    def _begin(self, shard: int) -> None:
        key = f"{self._logical.seed} {self.number} {shard}".encode()
        self.seed = int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "little") >> 1
        torch.manual_seed(self.seed)
        random.seed(self.seed)
        self._begin_buffers()
        self._shard = shard

    def _begin_buffers(self) -> None:
        logical = self._logical
        with torch.no_grad():
            for buffer, value in zip((*logical._buffers, *logical._others), self._begun, strict=True):
                buffer.copy_(value)

    def _take(self, loss: torch.Tensor) -> None:
        logical = self._logical
        taken = []
        for p in logical._parameters:
            taken.append((p.numel(), None if p.grad is None else _as_stored(p.grad, p)))
            p.grad = None
        # What does not change stays as it is: a mean of equal values may have other bits than they have.
        for buffer, begun in zip(logical._buffers, self._begun, strict=False):
            taken.append((buffer.numel(), _as_stored(buffer - begun, buffer)))
        taken.append((1, loss.to("cpu", torch.float32).reshape(1)))
        pieces = [(0 if values is None else values.data_ptr(), count) for count, values in taken]
        self._sum.add(self._shard, pieces)  # type: ignore[arg-type]


def _is_dense(tensor: torch.Tensor) -> bool:
    """Whether its elements fill a piece of memory, in any order of the dimensions."""
    expected = 1
    for stride, size in sorted((stride, size) for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size > 1):
        if stride != expected:
            return False
        expected *= size
    return True


def _as_stored(values: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """The values in the order in which ``like`` lies in memory."""
    if values.dtype is torch.float32 and values.layout is torch.strided and values.stride() == like.stride():
        return values
    dense = values.to_dense() if values.layout is not torch.strided else values
    return torch.empty_strided(like.shape, like.stride()).copy_(dense)


def _compare_processors() -> None:
    found = allgather_object((torch.get_num_threads(), torch.backends.cpu.get_cpu_capability()))
    for rank, (threads, capability) in enumerate(found):
        if threads != found[0][0]:
            raise InvalidArgumentError(
                f"LogicalShards: rank {rank} computes with {threads} threads, rank 0 with {found[0][0]}, and bits depend"
                " on it; call torch.set_num_threads() with the same number on all ranks"
            )
        if capability != found[0][1]:
            warnings.warn(
                f"LogicalShards: rank {rank} computes with {capability}, rank 0 with {found[0][1]}: the bits may depend on"
                " which shards a rank has",
                stacklevel=2,
            )
