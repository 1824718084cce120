"""ShardedOptimizer: the ranks of a host share parameters and optimizer state, and each updates its part of both."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import zip_longest
from typing import Any

import torch

from xoe import _core
from xoe import world as _world
from xoe.errors import HorovodInternalError, InvalidArgumentError, MismatchError, UnavailableError, UnsupportedError
from xoe.objects import allgather_object
from xoe.reduction import Average, ReduceOp, Sum
from xoe.torch.collectives import allreduce_async, prepare_request
from xoe.torch.fused_optimizers import FusedOptimizer, GroupUpdate, Norms, fused_optimizer
from xoe.torch.names import parameter_names
from xoe.torch.override import Override, Wrapping, remove_hooks
from xoe.torch.shared_tensors import MODES, STATES, Place, SharedTensors, dense_strides, lay_out, slices_of
from xoe.torch.tensors import DTYPES

_TYPES = (torch.float32, torch.float16, torch.bfloat16)
_MASTER = "master_parameter"
_SYNCHRONIZE, _STEP, _SYNCHRONIZED_STEP = range(MODES)  # what a rank is doing, which all must be
_AMP_SCALING = "_step_supports_amp_scaling"  # an attribute that GradScaler looks for
# Each rank has a part of the work, so that none may have joined.
_BARRIER = _core.Request(_core.KINDS["barrier"], needs_all_ranks=True)
_SUM = _core.Request(_core.KINDS["allreduce"], _core.REDUCTIONS["sum"], needs_all_ranks=True)
_AGREEMENT = _core.Request(_core.KINDS["allreduce"], _core.REDUCTIONS["max"], needs_all_ranks=True)
# Live optimizers by number: two at a time must not use the same name for different operations.
_alive: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()


class _Parameter:
    """A parameter in shared memory, with its gradient there."""

    __slots__ = ("address", "all_ranks", "gradient", "index", "param", "place", "reduced", "states", "value_version", "version")

    def __init__(self, index: int, place: Place, tensors: SharedTensors, states: int) -> None:
        self.index = index
        self.place = place
        self.param = place.param
        self.gradient = tensors.gradient(place)
        self.states = [tensors.state(place, state) for state in range(states)]
        self.version = 0  # of the gradient, when autograd had filled it
        self.address = 0
        self.value_version = 0
        self.all_ranks: list[_core.StepSlice] = []  # of this rank's parts: with the gradients of all ranks of the host
        self.reduced: list[_core.StepSlice] = []  # with this rank's gradient, which holds the result

    def collect(self) -> None:
        """Moves the gradient into shared memory, where it is not there yet."""
        grad = self.param.grad
        if grad is not self.gradient:
            if grad is None or grad.layout is not torch.strided:
                raise UnsupportedError(
                    f"{self.place.name} has a sparse gradient; make its module dense (Embedding: sparse=False), or use"
                    " sharded=False"
                )
            with torch.no_grad():
                self.gradient.copy_(grad)
            self.param.grad = self.gradient
        self.version = self.gradient._version


class ShardedMixin(Wrapping):
    """The mixin that :func:`ShardedOptimizer` adds to the optimizer's class."""

    state: dict[torch.Tensor, dict[str, Any]]

    def _shard(self, named_parameters: Iterable[tuple[str, torch.Tensor]] | None, op: ReduceOp) -> None:
        self._world = _world.current()
        self._one_host = self._world.local_size == self._world.size
        self._op = ReduceOp(op)
        self._fused: FusedOptimizer = fused_optimizer(self._plain)
        self._group_update = GroupUpdate(self._fused)
        names = parameter_names(self.param_groups, named_parameters)
        trained = [(names[p], p) for p in self._parameters() if p.requires_grad]
        _check_parameters(trained)
        self._check_same(trained)
        if _alive:
            gc.collect()  # an optimizer that is garbage on every rank must not be alive on some
        number = next(n for n in range(len(_alive) + 1) if n not in _alive)
        _alive[number] = self
        self._number = number
        self._name = f"sharded.{number}" if number else "sharded"
        self._listed = list(self._parameters())
        self._closed = self._failed = self._synchronized = self._stepped = False
        places, self._totals = lay_out(trained)
        self._tensors = SharedTensors(self._world, self._name, places, self._totals)
        self._flags = self._tensors.flags
        self._shared = [_Parameter(index, place, self._tensors, len(self._fused.names)) for index, place in enumerate(places)]
        self._by_param = {shared.param: shared for shared in self._shared}
        self._make_slices(places)
        state = dict(self.state)
        self._move_parameters()
        self._take_state({p: state[p] for p in self._by_param if p in state})
        self._tensors.lend()
        self._attach_hooks()
        # PyTorch's fused step unscales gradients and skips those that overflowed; GradScaler has to here.
        self._amp_scaling = self.__dict__.pop(_AMP_SCALING, None)

    # ---- Making

    def _check_same(self, trained: list[tuple[str, torch.Tensor]]) -> None:
        mine = [f"{type(self._plain).__qualname__}, op={self._op.name}"]
        mine += [f"{name}: {p.dtype} {list(p.shape)} strides {list(p.stride())}" for name, p in trained]
        every = allgather_object(mine, name="sharded.parameters")
        for rank, theirs in enumerate(every):
            for first, other in zip_longest(every[0], theirs, fillvalue="no more parameters"):
                if first != other:
                    raise MismatchError(f"ShardedOptimizer: ranks differ: rank 0 has {first}, rank {rank} has {other}")

    def _make_slices(self, places: list[Place]) -> None:
        world, tensors = self._world, self._tensors
        reduction = _core.REDUCTIONS["average" if self._op is Average else "sum"]
        by_place = {shared.place.name: shared for shared in self._shared}
        for part in slices_of(places, self._totals, world.local_rank, world.local_size):
            shared = by_place[part.place.name]
            dtype = DTYPES[part.place.dtype]
            master = tensors.state_address(part, STATES) if part.place.dtype.itemsize == 2 else 0
            states = [tensors.state_address(part, index) for index in range(len(shared.states))]
            gradients = tensors.gradient_addresses(part)
            address = tensors.value_address(part)
            for slices, read in ((shared.all_ranks, gradients), (shared.reduced, [gradients[world.local_rank]])):
                slices.append(_core.StepSlice(address, master, read, part.elements, dtype, dtype, reduction, states))

    @torch.no_grad()
    def _move_parameters(self) -> None:
        """Into shared memory: rank 0's values, on every host."""
        for shared in self._shared:
            value = self._tensors.value(shared.place)
            start = shared.param.detach().as_strided(value.shape, value.stride())
            if not self._one_host:
                from xoe.torch.blocking import broadcast

                start = broadcast(shared.param.detach(), 0, f"{self._name}.start.{shared.index}")
            if self._world.local_rank == 0:
                value.copy_(start)
                self._refresh_master(shared, value)
            shared.param.data = value
            shared.address = value.data_ptr()
        self._meet("start")

    @torch.no_grad()
    def _refresh_masters(self) -> None:
        """Of the parameters that the program has changed."""
        for shared in self._shared:
            if self._world.local_rank == 0 and shared.param._version != shared.value_version:
                self._refresh_master(shared, shared.param.detach())

    def _refresh_master(self, shared: _Parameter, value: torch.Tensor) -> None:
        """After the program has changed a parameter."""
        if shared.place.dtype.itemsize == 2:
            self._tensors.state(shared.place, STATES).copy_(value)

    def _attach_hooks(self) -> None:
        me = weakref.ref(self)

        def follow(shared: _Parameter) -> Any:
            def arrived(_: torch.Tensor) -> None:
                optimizer = me()
                if optimizer is not None:
                    shared.collect()
                    optimizer._synchronized = False

            return shared.param.register_post_accumulate_grad_hook(arrived)  # type: ignore[no-untyped-call]

        self._hooks = [follow(shared) for shared in self._shared]
        weakref.finalize(self, remove_hooks, self._hooks)

    # ---- Operations

    def _meet(self, what: str) -> None:
        """A barrier: what ranks wrote before it can be read after it."""
        _wait_for_all(self._world.engine.submit(f"{self._name}.{what}", [], _BARRIER))

    def _reduce(self, name: str, address: int, count: int, dtype: torch.dtype, request: _core.Request) -> None:
        _wait_for_all(self._world.engine.submit_in_place(f"{self._name}.{name}", address, (count,), DTYPES[dtype], request))

    # ---- A step

    def _check_usable(self) -> None:
        if self._closed:
            raise InvalidArgumentError("ShardedOptimizer: used after close()")
        if not _world.is_current(self._world):
            raise UnavailableError("ShardedOptimizer: its world has ended; make another optimizer in the new one")
        if self._failed:
            raise InvalidArgumentError("ShardedOptimizer: an earlier step has failed; load a checkpoint into another optimizer")
        if not self._has_parameters(self._listed):
            raise InvalidArgumentError("ShardedOptimizer: param_groups has other parameters now; make another optimizer")
        for p in self._parameters():
            shared = self._by_param.get(p)
            if shared is None:
                if p.requires_grad:
                    raise InvalidArgumentError(
                        "ShardedOptimizer: a parameter requires gradients only now; make another optimizer"
                    )
            elif p.data_ptr() != shared.address:
                raise InvalidArgumentError(
                    f"ShardedOptimizer: {shared.place.name} has other memory now (by .to() or .data); make another optimizer"
                )

    def _collect(self) -> None:
        """Completes this rank's gradients and flags."""
        for shared in self._shared:
            grad = shared.param.grad
            if grad is None:
                shared.gradient.zero_()
            elif grad is not shared.gradient:
                shared.collect()
            elif grad._version != shared.version and self._world.size > 1 and bool(grad.any()):  # zeros stay zeros
                raise RuntimeError(
                    f"{shared.place.name}: its gradient was modified before it was reduced; call optimizer.synchronize() first,"
                    " as before clip_grad_norm_() or GradScaler.unscale_()"
                )
            self._flags[shared.index] = grad is not None

    @torch.no_grad()
    def _exchange(self, mode: int, whole: bool) -> None:
        """Learns which parameters any rank has a gradient for. whole: reduces gradients too, for all ranks to see."""
        self._collect()
        self._agree(mode)
        if whole:
            request = prepare_request(self._op, "allreduce", 1.0, 1.0, 0, None)
            for dtype, total in self._totals.items():
                kind = str(dtype).removeprefix("torch.")
                self._reduce(f"gradients.{kind}", self._tensors.gradients_address(dtype), total, dtype, request)

    def _agree(self, mode: int) -> None:
        """Flags become those that any rank has set. No rank returns before all have come, and then any may write parameters."""
        self._refresh_masters()
        count = len(self._shared)
        for other in range(MODES):
            self._flags[count + other] = mode == other
        self._reduce("used", self._tensors.flags_address, count + MODES, torch.uint8, _AGREEMENT)
        if sum(self._flags[count : count + MODES]) != 1:
            raise InvalidArgumentError(
                "ShardedOptimizer: ranks differ: some called synchronize() before step(), others not, or called backward() or"
                " zero_grad() after it; call zero_grad() on all ranks, and begin the step again"
            )

    def synchronize(self) -> None:
        """Reduces the gradients, so that ``.grad`` holds the result on every rank until :meth:`step`: to clip them, say.
        Without it, :meth:`step` reduces them on the way. Collective."""
        if self._synchronized:
            return
        self._check_usable()
        self._exchange(_SYNCHRONIZE, whole=True)
        for shared in self._shared:
            shared.param.grad = shared.gradient if self._flags[shared.index] else None
            shared.version = shared.gradient._version
        self._synchronized = True

    def abandon(self) -> None:
        """Drops the gradients of this step, of which no reduction is under way before :meth:`step`. Call it on all ranks."""
        self.zero_grad()

    @contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """As :meth:`DistributedMixin.skip_synchronize`: :meth:`step` uses the gradients that :meth:`synchronize` reduced, as it
        does without this context."""
        yield

    @Override
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Reduces the gradients, unless :meth:`synchronize` has, and updates the parameters. ``.grad`` is None afterwards.
        Collective; no rank returns before all parameters are up to date.

        With a closure, its gradients are reduced too, and its loss is averaged over all ranks.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
            if isinstance(loss, torch.Tensor):
                loss = allreduce_async(loss.detach(), None, f"{self._name}.loss", Average).wait()
        self._opt_called = True  # schedulers look for it
        self._hooked_update()
        return loss

    @torch.optim.Optimizer.profile_hook_step
    def _hooked_update(self) -> None:
        self._check_usable()
        if self._synchronized:
            self._agree(_SYNCHRONIZED_STEP)
        else:
            self._exchange(_STEP, whole=not self._one_host)
        reduced = self._synchronized or not self._one_host
        self._stepped = True
        for group in self.param_groups:
            self._update(group, reduced)
        try:
            self._meet("step")
        except HorovodInternalError as error:
            self._failed = True
            raise type(error)(f"{error}; the shared parameters are half updated: load a checkpoint") from error
        self._synchronized = False
        for shared in self._shared:
            shared.param.grad = None
            torch.autograd.graph.increment_version(shared.param)
            shared.value_version = shared.param._version

    def _update(self, group: dict[str, Any], reduced: bool) -> None:
        parameters: list[tuple[Any, list[_core.StepSlice]]] = []
        for p in group["params"]:
            shared = self._by_param.get(p)
            if shared is None or not self._flags[shared.index]:
                continue
            begun = self._fused.begin(group, self.state[p], shared.states)
            if shared.place.dtype.itemsize == 2:
                self.state[p][_MASTER] = self._tensors.state(shared.place, STATES)
            parameters.append((begun, shared.reduced if reduced else shared.all_ranks))
        self._group_update.run(group, parameters, self._add_up)

    def _add_up(self, norms: list[Norms]) -> list[Norms]:
        """The norms of whole parameters, from those of this rank's parts."""
        is_first = float(self._world.local_rank == 0)
        sums = torch.tensor([*norms, (is_first, is_first)], dtype=torch.float64)
        self._reduce("norms", sums.data_ptr(), sums.numel(), torch.float64, _SUM)
        hosts = sums[-1]  # each of them has all parts
        return [(parameter, update) for parameter, update in (sums[:-1] / hosts).tolist()]

    # ---- The rest of an optimizer

    @Override
    def zero_grad(self, set_to_none: bool = True) -> None:
        """As in the base class. Drops what :meth:`synchronize` reduced; call it on all ranks then."""
        self._inner("zero_grad")(set_to_none)
        self._synchronized = False
        for shared in self._shared:
            shared.version = shared.gradient._version

    @Override
    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Raises UnsupportedError: the memory is laid out once."""
        raise UnsupportedError(
            "ShardedOptimizer: add_param_group() is not supported; close() it, and make another one around the plain optimizer"
        )

    @Override
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """As in the base class. Collective; all ranks load the same, from any number of ranks, sharded or not."""
        self._check_usable()
        self._meet("load")
        self._inner("load_state_dict")({**state_dict, "state": {}})
        saved = [index for group in state_dict["param_groups"] for index in group["params"]]
        states = dict(zip(self._parameters(), (state_dict["state"].get(index) for index in saved), strict=True))
        self._take_state({p: state for p, state in states.items() if state and p in self._by_param})

    @torch.no_grad()
    def _take_state(self, states: dict[torch.Tensor, dict[str, Any]]) -> None:
        """Puts states of whole parameters into shared memory. Collective."""
        lead = self._world.local_rank == 0
        self.state.clear()
        for p, state in states.items():
            shared = self._by_param[p]
            memory = dict(zip(self._fused.names, shared.states, strict=True))
            if shared.place.dtype.itemsize == 2:
                memory[_MASTER] = self._tensors.state(shared.place, STATES)
            taken = {}
            for name, value in state.items():
                target = memory.get(name)
                if target is None or value is None:
                    taken[name] = value.clone() if isinstance(value, torch.Tensor) else value
                    continue
                if lead:
                    target.copy_(value)
                taken[name] = target
            self.state[p] = taken
        if lead and self._stepped:
            for shared in self._shared:
                taken = self.state.get(shared.param, {})
                for name, tensor in zip(self._fused.names, shared.states, strict=True):
                    if taken.get(name) is None:
                        tensor.zero_()
        for shared in self._shared:
            if lead and self.state.get(shared.param, {}).get(_MASTER) is None:
                self._refresh_master(shared, shared.param.detach())
            shared.value_version = shared.param._version
        self._meet("state")

    @torch.no_grad()
    def close(self) -> None:
        """Gives every rank parameters and state of its own, and the plain optimizer its work back. Collective."""
        if self._closed:
            return
        self._check_usable()
        self._meet("close")
        remove_hooks(self._hooks)
        for shared in self._shared:
            shared.param.grad = None
            shared.param.data = shared.param.detach().clone()
            state = self.state.get(shared.param, {})
            for name, value in state.items():
                if isinstance(value, torch.Tensor) and value.dim() > 0:
                    state[name] = value.clone()
        if self._amp_scaling is not None:
            self.__dict__[_AMP_SCALING] = self._amp_scaling
        self._meet("closed")
        self._tensors.take_back()
        self._closed = True
        _alive.pop(self._number, None)


def _wait_for_all(operation: _core.Operation) -> None:
    try:
        operation.wait()
    except InvalidArgumentError as error:
        if "has joined" not in str(error):
            raise
        raise InvalidArgumentError(
            "ShardedOptimizer: a rank has joined; it takes part in every step, since it updates its part of the parameters:"
            f" train the same number of batches on every rank ({error})"
        ) from error


def _check_parameters(trained: list[tuple[str, torch.Tensor]]) -> None:
    if not trained:
        raise InvalidArgumentError("ShardedOptimizer: the optimizer has no parameter that requires a gradient")
    for name, p in trained:
        if not p.is_cpu or p.layout is not torch.strided:
            raise UnsupportedError(f"sharded: {name} is on {p.device}, and must be dense in host memory; use sharded=False")
        if p.dtype not in _TYPES:
            kind = str(p.dtype).removeprefix("torch.")
            raise UnsupportedError(f"sharded: {name} is {kind}; float32, float16 and bfloat16 are supported; use sharded=False")
        if not p.is_leaf:
            raise InvalidArgumentError(f"ShardedOptimizer: {name} is not a leaf")
        if p.stride() != dense_strides(p):
            raise UnsupportedError(f"sharded: {name} is not dense; make it contiguous, or use sharded=False")


def ShardedOptimizer(  # noqa: N802 (named as DistributedOptimizer is)
    optimizer: torch.optim.Optimizer,
    named_parameters: Iterable[tuple[str, torch.Tensor]] | None = None,
    op: ReduceOp = Average,
) -> Any:
    """The optimizer with parameters and state in memory that the ranks of a host share: each rank reduces its part of the
    gradients over all ranks and updates its part of the parameters for all of them, in one pass over memory.

    ``torch.optim``'s SGD, Adam and AdamW, with parameters in host memory of type float32, or float16 and bfloat16, which are
    updated through float32 copies. The numbers are those of a :func:`DistributedOptimizer` to the last bits. Each host has one
    copy of the state, and ``state_dict()`` is PyTorch's own, for any number of ranks, sharded or not. Collective.

    Every step needs all ranks: it raises InvalidArgumentError where one is in ``join()``.

    The parameters begin with rank 0's values, and change in ``step()`` only; buffers, such as those of batch norm, stay with
    each rank. Gradients add up over any number of backward passes, and are None after ``step()``. To clip gradients, or with a
    GradScaler, call ``synchronize()`` first. The next backward pass writes into the same memory: clone a ``.grad`` to
    keep it. ``close()`` ends the sharing.

    The result is of a class made from the optimizer's own, shares its state, and takes its place; do not use both.

    named_parameters: ``model.named_parameters()``; names for messages, the same on all ranks.
    op: Average or Sum.

    Raises UnsupportedError for other optimizers and parameters, MismatchError where ranks differ.
    """
    if op not in (Average, Sum):
        raise InvalidArgumentError("ShardedOptimizer: op must be Average or Sum")
    if isinstance(optimizer, Wrapping):
        raise InvalidArgumentError("the optimizer is a DistributedOptimizer already")
    made = ShardedMixin.around(optimizer)
    made._shard(named_parameters, op)
    return made


def refuse(options: dict[str, bool]) -> None:
    """Raises UnsupportedError for an option of a DistributedOptimizer that is given, and that a ShardedOptimizer lacks."""
    for option, given in options.items():
        if given:
            raise UnsupportedError(f"sharded: {option} is not supported; leave it out, or use sharded=False")
