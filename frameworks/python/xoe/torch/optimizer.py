"""DistributedOptimizer: reduces gradients over all ranks before each step."""

from __future__ import annotations

import gc
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from typing import Any

import torch

from xoe import world as _world
from xoe.errors import HorovodInternalError, InvalidArgumentError, MismatchError, UnavailableError, UnsupportedError
from xoe.objects import broadcast_object
from xoe.process_sets import ProcessSet, global_process_set
from xoe.reduction import Adasum, Average, ReduceOp
from xoe.torch.adasum_optimizer import AdasumMixin
from xoe.torch.buckets import Buckets
from xoe.torch.collectives import (
    allreduce_async,
    allreduce_async_,
    grouped_allreduce_async_,
    prepare_request,
    sparse_allreduce_async,
)
from xoe.torch.compression import Compression, Compressor
from xoe.torch.first_step import FirstStep, warn
from xoe.torch.fused_optimizers import KNOWN
from xoe.torch.fused_step import FusedStep
from xoe.torch.gradient import Gradient, Work, dense_alias
from xoe.torch.handle import Handle
from xoe.torch.names import parameter_names
from xoe.torch.optim import LAMB, LARS
from xoe.torch.override import Override, Wrapping, remove_hooks
from xoe.torch.presence import Presence
from xoe.torch.sharded import ShardedOptimizer, refuse

# Live optimizers by number: two at a time must not use the same name for different tensors.
_alive: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()

_SYNCHRONIZE_FIRST = "call optimizer.synchronize() first, as before clip_grad_norm_() or GradScaler.unscale_()"


class DistributedMixin(Wrapping):
    """The mixin that :func:`DistributedOptimizer` adds to the optimizer's class."""

    _set_id: int | None = None
    _fused_step: FusedStep | None
    state: dict[torch.Tensor, dict[str, Any]]
    _distributed: bool = False
    _first_step: FirstStep | None = None

    def _distribute(
        self,
        named_parameters: Iterable[tuple[str, torch.Tensor]] | None,
        compression: type[Compressor] | Compressor,
        backward_passes_per_step: int,
        op: ReduceOp,
        gradient_predivide_factor: float,
        groups: int | Sequence[Sequence[torch.Tensor]] | None,
        sparse_as_dense: bool,
        gradient_views: bool,
        fused_step: bool | None,
        process_set: ProcessSet,
    ) -> None:
        self._fused_step = _fused_step(self._plain, fused_step)
        names = self._parameter_names = parameter_names(self.param_groups, named_parameters)  # programs read it
        if _alive:
            gc.collect()  # an optimizer that is garbage on every rank must not be alive on some
        number = next(n for n in range(len(_alive) + 1) if n not in _alive)
        _alive[number] = self
        self._prefix = f"gradient.{number}." if number else "gradient."
        self._compression = compression
        # The gradient itself is submitted: compressed by the engine, or uncompressed.
        self._uncopied = getattr(compression, "compress", None) is Compressor.compress
        self._op = ReduceOp(op)
        predivides = op is Average and gradient_predivide_factor != 1.0
        self._scales = (1.0 / gradient_predivide_factor, gradient_predivide_factor) if predivides else (1.0, 1.0)
        self._sparse_as_dense = sparse_as_dense
        self._process_set = process_set
        self._passes = backward_passes_per_step
        self._gradient_views = gradient_views
        self._gradients = [
            Gradient(p, self._prefix + names[p], backward_passes_per_step, gradient_views) for p in self._parameters()
        ]
        self._buckets: Buckets | None = None
        if self._uncopied:
            self._make_buckets()
        self._listed = list(self._parameters())  # in the groups, as far as known
        self._added = 0
        self._gone: list[Gradient] = []  # of parameters that the groups do not have any more
        self._in_flight: list[Gradient] = []
        self._skip = False
        self._synchronized = False
        self._arrived: dict[tuple[Gradient, ...], int] = {}
        self._world: Any = None
        self._is_distributed()
        for group in self._groups(groups):
            for gradient in group:
                gradient.group = group
        self._hooks: list[Any] = []
        self._hook()
        weakref.finalize(self, remove_hooks, self._hooks)

    def _hook(self) -> None:
        """Registers hooks for parameters that require gradients and have none yet, where there are ranks to reduce with."""
        if not self._is_distributed():
            return
        me = weakref.ref(self)

        def follow(gradient: Gradient) -> Any:
            def arrived(_: torch.Tensor) -> None:
                optimizer = me()
                if optimizer is not None:
                    optimizer._on_gradient(gradient)

            return gradient.param.register_post_accumulate_grad_hook(arrived)  # type: ignore[no-untyped-call]

        for gradient in self._gradients:
            if gradient.hook is None and gradient.param.requires_grad:
                gradient.hook = follow(gradient)
                self._hooks.append(gradient.hook)

    @Override
    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """As in the base class; gradients of the new parameters are reduced too. Call it on all ranks."""
        self._inner("add_param_group")(param_group)
        self._follow_parameters()

    def _follow_parameters(self) -> None:
        """Parameters come and go, also through the plain optimizer, or straight in param_groups."""
        if not self._has_parameters(self._listed):
            self._listed = list(self._parameters())
            known = {id(gradient.param) for gradient in self._gradients}
            for p in self._listed:
                if id(p) not in known:
                    self._added += 1
                    name = f"{self._prefix}added{self._added}"
                    self._gradients.append(Gradient(p, name, self._passes, self._gradient_views))
            listed = {id(p) for p in self._listed}
            self._gone = [gradient for gradient in self._gradients if id(gradient.param) not in listed]
        self._hook()

    def _drop_gone(self) -> None:
        """Forgets the gradients of parameters that have left the groups; between two steps, where none is in flight."""
        gone, self._gone = self._gone, []
        if self._buckets is not None and any(gradient.in_bucket for gradient in gone):
            self._make_buckets()
        elif self._buckets is not None:
            self._buckets.forget(gone)
        for gradient in gone:
            self._gradients.remove(gradient)
            self._parameter_names.pop(gradient.param, None)
            if gradient.hook is not None:
                gradient.hook.remove()
                self._hooks.remove(gradient.hook)
            rest = tuple(member for member in gradient.group or () if member is not gradient)
            for member in rest:
                member.group = rest
        if gone and self._fused_step is not None:
            self._fused_step.forget([gradient.param for gradient in gone])

    def _make_buckets(self) -> None:
        if self._buckets is not None:
            self._buckets.dissolve()
        self._buckets = Buckets(self._prefix, getattr(self._compression, "wire", None))

    def _groups(self, groups: int | Sequence[Sequence[torch.Tensor]] | None) -> list[tuple[Gradient, ...]]:
        if groups is None or groups == 0:
            return []
        trained = [gradient for gradient in self._gradients if gradient.param.requires_grad]
        if not isinstance(groups, int):
            members = [p for group in groups for p in group]
            if any(not isinstance(p, torch.Tensor) for p in members):
                raise InvalidArgumentError("groups must be a number, or a list of lists of parameters")
            if len({id(p) for p in members}) != len(members):
                raise InvalidArgumentError("a parameter occurs twice in groups")
            by_param = {id(gradient.param): gradient for gradient in trained}
            if any(p.requires_grad and id(p) not in by_param for p in members):
                raise InvalidArgumentError("groups has a parameter that the optimizer does not have")
            return [tuple(by_param[id(p)] for p in group if p.requires_grad) for group in groups if len(group) > 0]
        if groups < 0:
            raise InvalidArgumentError(f"groups is {groups}; pass 0 or more, or a list of lists of parameters")
        by_name = {gradient.name: gradient for gradient in trained}
        # The order of parameters may differ between ranks.
        order = broadcast_object(list(by_name), self._first_rank(), None, self._process_set)
        each, longer = divmod(len(order), groups)
        ends = [each * index + min(index, longer) for index in range(groups + 1)]
        return [tuple(by_name[name] for name in order[begin:end]) for begin, end in pairwise(ends) if end > begin]

    def _first_rank(self) -> int:
        ranks = self._process_set.ranks
        return ranks[0] if ranks else 0

    def _is_distributed(self) -> bool:
        """Whether there are other ranks to reduce with."""
        if not _world.is_current(self._world) or self._process_set.process_set_id != self._set_id:
            self._enter_world()
        return self._distributed

    def _enter_world(self) -> None:
        """Prepares for a new world, formed after a failure for example. Raises if it has gradients in flight in the old one."""
        process_set = self._process_set
        lost = bool(self._in_flight)
        self._world = _world.current()
        self._set_id = process_set._need()
        self._engine = self._world.engine
        self._distributed = process_set.included() and process_set.size() > 1
        self._first_step = FirstStep()  # also of ranks that go on, with those that are new
        if self._buckets is not None:
            self._make_buckets()
        wire = getattr(self._compression, "wire", None)
        self._request = prepare_request(self._op, "allreduce", *self._scales, self._set_id, wire)
        if lost:
            self._forget()
            raise UnavailableError("its world ended while gradients were being reduced")

    # ---- During backward

    def _on_gradient(self, gradient: Gradient) -> None:
        if not self._is_distributed():
            return
        left = gradient.left - 1
        if left < 0 or gradient.in_flight:
            raise RuntimeError(
                f"the gradient of {gradient.name.removeprefix('gradient.')} was computed more than"
                f" backward_passes_per_step={self._passes} times before step(); "
                + (self._shared(gradient) or "increase it to accumulate gradients")
            )
        gradient.left = left
        self._synchronized = False
        if left > 0:
            return
        group = gradient.group
        if group is None:
            self._submit(gradient)
        else:
            self._arrived[group] = self._arrived.get(group, 0) + 1
            if self._arrived[group] == len(group):
                self._submit_group(group)

    def _shared(self, gradient: Gradient) -> str:
        """For messages: what to do where another optimizer reduces this gradient too."""
        others = [optimizer for optimizer in _alive.values() if optimizer is not self]
        if any(other.param is gradient.param for optimizer in others for other in optimizer._gradients):
            return "another DistributedOptimizer has this parameter too: keep one of them"
        return ""

    def _submit(self, gradient: Gradient) -> None:
        try:
            if self._first_step is not None:
                self._first_step.note(gradient)
            if gradient.in_bucket:
                self._buckets.put(gradient)  # type: ignore[union-attr]
            else:
                self._submit_alone(gradient)
        except BaseException:
            gradient.reset(self._passes)
            raise
        self._in_flight.append(gradient)

    def _submit_alone(self, gradient: Gradient) -> None:
        if not (self._uncopied and gradient.start(self._engine, self._request)):
            gradient.work = self._submit_derived(gradient)

    def _submit_derived(self, gradient: Gradient) -> Work:
        grad = gradient.hold()
        if grad.is_sparse:
            return Work((gradient,), (), self._submit_sparse(grad, gradient.name), ())
        sent, context = self._compression.compress(dense_alias(grad))
        return Work((gradient,), (sent,), allreduce_async_(sent, None, gradient.name, **self._options()), (context,))

    def _submit_group(self, group: tuple[Gradient, ...]) -> None:
        sent, contexts = [], []
        try:
            self._densify(group)
            for gradient in group:
                if self._first_step is not None:
                    self._first_step.note(gradient)
                grad = gradient.hold()
                if grad.is_sparse:  # refused by the step, on all ranks: this operation has to end on those whose are dense
                    grad = torch.zeros_like(gradient.param)
                tensor, context = self._compression.compress(dense_alias(grad))
                sent.append(tensor)
                contexts.append(context)
            handle = grouped_allreduce_async_(sent, None, group[0].name + ".group", **self._options())
        except BaseException:
            for gradient in group:
                gradient.reset(self._passes)
            raise
        work = Work(group, sent, handle, contexts)
        for gradient in group:
            gradient.work = work
        self._in_flight.extend(group)

    def _densify(self, gradients: Sequence[Gradient]) -> None:
        """Makes sparse gradients dense that lie in groups, where the program wants that."""
        for gradient in gradients if self._sparse_as_dense else ():
            grad = gradient.param.grad
            if gradient.group is not None and grad is not None and grad.is_sparse:
                gradient.param.grad = grad.to_dense()

    def _options(self) -> dict[str, Any]:
        pre, post = self._scales
        return {
            "op": self._op,
            "prescale_factor": pre,
            "postscale_factor": post,
            "process_set": self._process_set,
            "wire": getattr(self._compression, "wire", None),
        }

    def _submit_sparse(self, grad: torch.Tensor, name: str) -> Handle:
        if self._sparse_as_dense:
            return allreduce_async(grad.to_dense(), None, name, self._op, *self._scales, process_set=self._process_set)
        return sparse_allreduce_async(grad, name, self._op, self._process_set)

    # ---- Before the step

    def synchronize(self) -> None:
        """Waits until all gradients have been reduced. :meth:`step` calls it; call it yourself to modify gradients before the
        step, to clip them for example. Gradients that this rank has not computed count as zeros, and those that no rank has
        computed stay None, so that the step leaves their parameters alone. All become None where a rank calls :meth:`abandon`.
        """
        if self._synchronized or not self._is_distributed():
            self._forget()
        elif self._reduce(abandons=False):
            warn("another rank has abandoned this step, so that no rank updates its parameters", category=RuntimeWarning)

    def abandon(self) -> None:
        """Gives up this step between backward and :meth:`step`, in the place of :meth:`step`: to skip a batch after an
        exception in backward, for example. All ``.grad`` become None.

        Collective: every rank calls it, or :meth:`step` or :meth:`synchronize`, which then have no gradients on any rank, leave
        all parameters alone, and warn. It waits for all ranks, since operations that are under way on others need this one.
        """
        if not _world.is_current(self._world):
            self._forget()  # the operations have ended with their world
        if not self._synchronized and self._is_distributed():
            self._reduce(abandons=True)
        self._forget()
        self._drop_gradients()
        self._synchronized = False

    def _drop_gradients(self) -> None:
        for p in self._parameters():
            p.grad = None

    def _reduce(self, abandons: bool) -> bool:
        """Reduces the gradients of this step. True: a rank has abandoned it, and no rank has any gradients left."""
        self._follow_parameters()
        try:
            return self._reduce_known(abandons)
        finally:
            self._drop_gone()

    def _reduce_known(self, abandons: bool) -> bool:
        failed = None
        try:
            self._densify(self._gradients)
            presence = Presence(self._gradients, abandons, self._prefix, self._process_set)
            reduced = self._wait_for_all(presence)
            if not presence.abandoned:
                failed = self._refuse_sparse_groups(presence) or self._take_results(reduced)
        finally:
            self._forget()
            noted, self._first_step = self._first_step, None
        self._synchronized = failed is None
        if presence.abandoned:
            self._first_step = None if noted is None else FirstStep()
            self._drop_gradients()
            return True
        try:
            self._finish_step(noted, reduced)
            for gradient in presence.unused():
                gradient.param.grad = None
        finally:
            if failed is not None:
                raise failed
        return False

    def _wait_for_all(self, presence: Presence) -> Sequence[Gradient]:
        """The gradients that were reduced, in the order in which they became ready."""
        try:
            self._submit_missing(presence)
            for gradient in self._in_flight:
                gradient.wait()
            if self._buckets is not None:
                self._reduce_outside(self._buckets.wait())
        except MismatchError:  # on all ranks
            presence.wait()
            raise
        return list(self._in_flight)

    def _submit_missing(self, presence: Presence) -> None:
        """Submits what backward has not: gradients that the program has set, and zeros for those that other ranks have. Those
        in buckets are reduced in any case."""
        for gradient in self._gradients:
            if gradient.in_flight or not gradient.param.requires_grad:
                continue
            group = gradient.group
            if group is not None:
                if presence.fill(group):
                    self._submit_group(group)
            elif presence.fill((gradient,)) or gradient.in_bucket:
                self._submit(gradient)

    def _refuse_sparse_groups(self, presence: Presence) -> InvalidArgumentError | None:
        """On all ranks, also on those that have no gradient of such a parameter."""
        for gradient, kind in presence.wait().items():
            if gradient.group is not None and kind > 1:
                name = gradient.name.removeprefix("gradient.")
                return InvalidArgumentError(
                    f"{name} has a sparse gradient, which groups do not support; leave it out of groups"
                )
        return None

    def _take_results(self, gradients: Sequence[Gradient]) -> Exception | None:
        """The first error that this rank alone may have: the others go on to what all ranks do together."""
        first: Exception | None = None
        modified = {gradient for gradient in gradients if gradient.is_modified}  # the copies below are changes, too
        for gradient in gradients:
            try:
                if gradient in modified:
                    raise RuntimeError(
                        f"{gradient.name.removeprefix('gradient.')} was modified while it was being reduced; "
                        + (self._shared(gradient) or _SYNCHRONIZE_FIRST)
                    )
                if gradient.work is not None and not gradient.work.waited:
                    self._copy_results(gradient.work)
                gradient.take_result()
            except HorovodInternalError:
                raise  # on all ranks
            except Exception as error:
                first = first or error
        return first

    def _finish_step(self, noted: FirstStep | None, reduced: Sequence[Gradient]) -> None:
        """What all ranks do together once gradients have been reduced, before a warning that may be an error."""
        warning = ""
        if noted is not None:
            found = noted.compare(self._prefix, self._process_set)
            if found is None:
                self._first_step = noted
            warning = found or ""
        if self._buckets is not None:
            self._buckets.lay_out(self._engine, self._request, reduced)
        if warning:
            warn(warning)

    def _reduce_outside(self, gradients: Sequence[Gradient]) -> None:
        """Reduces gradients that do not fit into their buckets any more, as all ranks have found by then."""
        for gradient in gradients:
            self._submit_alone(gradient)
        for gradient in gradients:
            gradient.wait()

    def _forget(self) -> None:
        if self._buckets is not None and self._in_flight:
            self._buckets.abandon()  # nothing is under way where the step has ended well
        for gradient in self._gradients:
            gradient.reset(self._passes)
        self._in_flight.clear()
        self._arrived.clear()

    def _copy_results(self, work: Work) -> None:
        """Copies results to the gradients, unless they were reduced in place."""
        work.waited = True
        result = work.handle.wait()
        if not work.sent:
            p = work.gradients[0].param
            sparse_dims = p.grad.sparse_dim()  # type: ignore[union-attr]
            p.grad = result if result.is_sparse else result.to_sparse(sparse_dims)
            return
        with torch.no_grad():
            for gradient, sent, context in zip(work.gradients, work.sent, work.contexts, strict=True):
                alias = dense_alias(gradient.param.grad)  # type: ignore[arg-type]
                if sent.data_ptr() != alias.data_ptr():
                    alias.copy_(self._compression.decompress(sent, context))

    @contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """A context in which :meth:`step` does not synchronize.

        It follows a call of :meth:`synchronize`::

            optimizer.synchronize()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            with optimizer.skip_synchronize():
                optimizer.step()
        """
        self._skip = True
        try:
            yield
        finally:
            self._skip = False

    @Override
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Synchronizes, unless :meth:`synchronize` has been called since the last backward, and steps.

        With a closure, its gradients are reduced too, and its loss is averaged over all ranks.
        """
        own = self._inner("step")
        if closure is None:
            if not self._skip:
                self.synchronize()
            self._synchronized = False
            return self._stepped(own())
        evaluate = closure

        def evaluate_distributed() -> Any:
            loss = evaluate()
            self.synchronize()
            self._synchronized = False
            if isinstance(loss, torch.Tensor) and self._is_distributed():
                loss = allreduce_async(loss.detach(), op=Average, process_set=self._process_set).wait()
            return loss

        return self._stepped(own(evaluate_distributed))

    def _init_group(self, group: dict[str, Any], *lists: Any) -> Any:
        """PyTorch's step asks it for what to update in a group: nothing, after a fused step."""
        amp = getattr(self, "grad_scale", None) is not None or getattr(self, "found_inf", None) is not None
        if self._fused_step is not None and not amp and self._fused_step.run_all(group, self.state):
            return False
        return super()._init_group(group, *lists)  # type: ignore[misc]

    def _stepped(self, result: Any) -> Any:
        """Counts the step, whose result it gives back."""
        if _world.is_current(self._world):
            self._engine.note_step()
        return result

    @Override
    def zero_grad(self, set_to_none: bool = True) -> None:
        """As in the base class. Raises RuntimeError between the last backward pass and step, while gradients are in flight or
        wait for the others of their group: there :meth:`abandon` gives up the step. In earlier passes of
        ``backward_passes_per_step`` the accumulation begins again."""
        if self._in_flight or self._arrived:
            raise RuntimeError(
                "zero_grad() was called after backward() and before step() or synchronize(), while gradients are being reduced;"
                " to skip the step, call abandon() instead"
            )
        if self._passes > 1:
            self._forget()
        self._inner("zero_grad")(set_to_none)

    def set_backward_passes_per_step(self, passes: int) -> None:
        """Sets how many backward passes accumulate gradients before they are reduced."""
        if passes < 1:
            raise InvalidArgumentError(f"backward_passes_per_step is {passes}; it must be at least 1")
        self._passes = passes
        for gradient in self._gradients:
            gradient.left = passes

    @Override
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """As in the base class. Between backward and step it calls :meth:`abandon` first, which is collective."""
        if self._in_flight or self._arrived:
            with suppress(HorovodInternalError):  # in a world that has ended there is nothing under way
                self.abandon()
        self._forget()
        self._synchronized = False
        self._inner("load_state_dict")(state_dict)


def _fused_step(plain: torch.optim.Optimizer, wanted: bool | None) -> FusedStep | None:
    """None where the optimizer's own step runs."""
    kind = type(plain)  # a class derived from a known one may do anything
    if wanted is None:
        wanted = kind is torch.optim.SGD
    if not wanted or kind in (LARS, LAMB):
        return None
    if kind not in KNOWN:
        raise UnsupportedError(f"fused_step: there is none for {kind.__qualname__}; use torch.optim's SGD, Adam or AdamW")
    return FusedStep(KNOWN[kind]())


def DistributedOptimizer(  # noqa: N802 (Horovod's name)
    optimizer: torch.optim.Optimizer,
    named_parameters: Iterable[tuple[str, torch.Tensor]] | None = None,
    compression: type[Compressor] | Compressor = Compression.none,
    backward_passes_per_step: int = 1,
    op: ReduceOp = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: int | Sequence[Sequence[torch.Tensor]] | None = None,
    sparse_as_dense: bool = False,
    process_set: ProcessSet = global_process_set,
    *,
    gradient_views: bool = True,
    sharded: bool = False,
    fused_step: bool | None = None,
) -> Any:
    """The optimizer with gradients reduced over all ranks, while backward still runs.

    The result is of a class made from the optimizer's own, shares its state, and takes its place; do not use both. To skip a
    batch after backward, call its method ``abandon()`` instead of ``step()``.

    named_parameters: ``model.named_parameters()``; names for messages and timelines, the same on all ranks. Without it
        parameters are known by their order.
    compression: ``Compression.fp16``, ``.bf16``, ``.top_k(0.01)``, ...
    backward_passes_per_step: so many backward passes add up before gradients are reduced.
    op: Average, Sum, or Adasum, which combines what ranks' steps changed.
    gradient_predivide_factor: with Average, divides by it before the sum, and by size / factor after.
    groups: a number of groups, or lists of parameters, whose gradients are reduced together; ``num_groups`` is its older name.
    sparse_as_dense: reduce sparse gradients as dense ones.
    process_set: reduce over these ranks only; on others it is the plain optimizer.
    gradient_views: from the second step on, ``.grad`` of parameters in host memory is a view of memory that the ranks of a
        host share, so that results are not copied back. The gradient itself may be kept; a tensor that only shares its
        memory, such as ``p.grad.view(-1)``, shows the next step's gradient once that is computed. False: results are
        copied to gradients of the parameters' own. Op Adasum has no views.
    sharded: a :func:`ShardedOptimizer`: each rank updates its part of the parameters, which the ranks of a host share.
    fused_step: the optimizer's step is one pass over memory for groups of dense float32 parameters in host memory, as long as
        options such as ``foreach`` do not ask for another. True: of ``torch.optim``'s SGD, Adam and AdamW; Adam's numbers are
        PyTorch's to the last bits. None: of SGD, which has PyTorch's own bits. False: never.
    """
    if sharded:
        lacking = {
            "compression": compression is not Compression.none,
            "gradient_predivide_factor": gradient_predivide_factor != 1.0,
            "groups": bool(num_groups or groups),
            "process_set": process_set is not global_process_set,
            "op=Adasum": op is Adasum,
            "fused_step=False": fused_step is False,
        }
        refuse(lacking)
        return ShardedOptimizer(optimizer, named_parameters, op)
    if gradient_predivide_factor != 1.0 and op != Average:
        raise InvalidArgumentError("gradient_predivide_factor needs op=Average")
    if not gradient_predivide_factor > 0:
        raise InvalidArgumentError(f"gradient_predivide_factor is {gradient_predivide_factor}; it must be more than 0")
    if num_groups != 0:
        warnings.warn("num_groups is deprecated; give groups", DeprecationWarning, stacklevel=2)
        groups = num_groups if groups is None else groups
    if op is Adasum and fused_step:
        raise UnsupportedError("fused_step: there is none for op=Adasum")
    if backward_passes_per_step < 1:
        raise InvalidArgumentError(f"backward_passes_per_step is {backward_passes_per_step}; it must be at least 1")
    _world.current()
    if isinstance(optimizer, Wrapping):
        raise InvalidArgumentError("the optimizer is a DistributedOptimizer already")
    made = (AdasumMixin if op == Adasum else DistributedMixin).around(optimizer)
    own_options = () if op == Adasum else (op, gradient_predivide_factor, groups, sparse_as_dense, gradient_views, fused_step)
    made._distribute(named_parameters, compression, backward_passes_per_step, *own_options, process_set)
    return made
