"""An optimizer whose gradients are those of all ranks."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from xoe import world as _world
from xoe.objects import broadcast_object
from xoe.process_sets import ProcessSet, global_process_set
from xoe.reduction import Adasum, Average, ReduceOp
from xoe.torch.adasum_optimizer import AdasumMixin
from xoe.torch.collectives import allreduce_async, allreduce_async_, grouped_allreduce_async_, sparse_allreduce_async
from xoe.torch.compression import Compression, Compressor
from xoe.torch.handle import Handle
from xoe.torch.names import parameter_names

# Optimizers that exist: two at once must not use one name for two tensors.
_alive: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()


def _dense_alias(grad: torch.Tensor) -> torch.Tensor:
    """The gradient's memory as a contiguous tensor, where it is dense. One dimension more marks another order of elements: a
    rank that has the usual one is told so."""
    if grad.is_contiguous() or grad.layout is not torch.strided:
        return grad
    if grad.dim() == 4 and grad.is_contiguous(memory_format=torch.channels_last):
        return grad.permute(0, 2, 3, 1).unsqueeze(0)
    if grad.dim() == 5 and grad.is_contiguous(memory_format=torch.channels_last_3d):
        return grad.permute(0, 2, 3, 4, 1).unsqueeze(0)
    return grad


class _Work:
    """A gradient, or a group of them, on its way."""

    __slots__ = ("contexts", "handle", "params", "sent", "versions")

    def __init__(self, params: Sequence[torch.Tensor], sent: Sequence[torch.Tensor], handle: Handle, contexts: Sequence[Any]):
        self.params = params
        self.sent = sent
        self.handle = handle
        self.contexts = contexts
        self.versions = [p.grad._version for p in params]  # type: ignore[union-attr]


class DistributedMixin:
    """What :func:`DistributedOptimizer` puts before the optimizer's own class."""

    param_groups: list[dict[str, Any]]

    def _distribute(
        self,
        named_parameters: Iterable[tuple[str, torch.Tensor]] | None,
        compression: type[Compressor] | Compressor,
        backward_passes_per_step: int,
        op: ReduceOp,
        gradient_predivide_factor: float,
        groups: int | Sequence[Sequence[torch.Tensor]] | None,
        sparse_as_dense: bool,
        process_set: ProcessSet,
    ) -> None:
        names = parameter_names(self.param_groups, named_parameters)
        number = next(n for n in range(len(_alive) + 1) if n not in _alive)
        _alive[number] = self
        prefix = f"{number}." if number else ""
        self._names = {p: f"gradient.{prefix}{name}" for p, name in names.items()}
        self._compression = compression
        self._op = ReduceOp(op)
        predivides = op is Average and gradient_predivide_factor != 1.0
        self._scales = (1.0 / gradient_predivide_factor, gradient_predivide_factor) if predivides else (1.0, 1.0)
        self._sparse_as_dense = sparse_as_dense
        self._process_set = process_set
        self._passes = backward_passes_per_step
        self._passes_left: dict[torch.Tensor, int] = {}
        self._under_way: dict[torch.Tensor, _Work] = {}
        self._skip = False
        self._synchronized = False
        self._group_of: dict[torch.Tensor, tuple[torch.Tensor, ...]] = {}
        self._arrived: dict[tuple[torch.Tensor, ...], int] = {}
        for group in self._groups(groups):
            for p in group:
                self._group_of[p] = group
        me = weakref.ref(self)

        def arrived(p: torch.Tensor) -> None:
            optimizer = me()
            if optimizer is not None:
                optimizer._on_gradient(p)

        self._hooks = [
            p.register_post_accumulate_grad_hook(arrived)  # type: ignore[no-untyped-call]
            for p in self._parameters()
        ]
        weakref.finalize(self, _remove_hooks, self._hooks)

    def _parameters(self) -> Iterator[torch.Tensor]:
        for group in self.param_groups:
            for p in group["params"]:
                if p.requires_grad:
                    yield p

    def _groups(self, groups: int | Sequence[Sequence[torch.Tensor]] | None) -> list[tuple[torch.Tensor, ...]]:
        if groups is None or groups == 0:
            return []
        if not isinstance(groups, int):
            members = [p for group in groups for p in group]
            if any(not isinstance(p, torch.Tensor) for p in members):
                raise ValueError("groups must be a number, or a list of lists of parameters")
            if len({id(p) for p in members}) != len(members):
                raise ValueError("a parameter stands in groups twice")
            return [tuple(p for p in group if p.requires_grad) for group in groups if len(group) > 0]
        if groups < 0:
            raise ValueError(f"groups is {groups}; give a number from 0 on, or a list of lists of parameters")
        by_name = {self._names[p]: p for p in self._parameters()}
        # Parameters may stand in another order on another rank.
        order = broadcast_object(list(by_name), self._first_rank(), None, self._process_set)
        each, longer = divmod(len(order), groups)
        found, begin = [], 0
        for index in range(groups):
            end = begin + each + (index < longer)
            if end > begin:
                found.append(tuple(by_name[name] for name in order[begin:end]))
            begin = end
        return found

    def _first_rank(self) -> int:
        ranks = self._process_set.ranks
        return ranks[0] if ranks else 0

    def _alone(self) -> bool:
        return not self._process_set.included() or self._process_set.size() == 1

    # ---- During backward

    def _on_gradient(self, p: torch.Tensor) -> None:
        if self._alone():
            return
        left = self._passes_left.get(p, self._passes) - 1
        if left < 0 or p in self._under_way:
            raise RuntimeError(
                f"the gradient of {self._names[p]} was computed more than backward_passes_per_step={self._passes} times before"
                " step(); increase it to accumulate gradients"
            )
        self._passes_left[p] = left
        self._synchronized = False
        if left > 0:
            return
        group = self._group_of.get(p)
        if group is None:
            self._send((p,))
        else:
            self._arrived[group] = self._arrived.get(group, 0) + 1
            if self._arrived[group] == len(group):
                self._send(group)

    def _send(self, params: tuple[torch.Tensor, ...]) -> None:
        for p in params:
            if p.grad is None:  # nothing depended on it here; others wait for it
                p.grad = torch.zeros_like(p)
            elif p.grad.is_sparse and len(params) > 1:
                raise ValueError(f"{self._names[p]} has a sparse gradient and stands in a group; leave it out of groups")
        work = self._send_sparse(params[0]) if params[0].grad.is_sparse else self._send_dense(params)  # type: ignore[union-attr]
        for p in params:
            self._under_way[p] = work

    def _send_dense(self, params: tuple[torch.Tensor, ...]) -> _Work:
        compress = self._compression.compress
        sent, contexts = [], []
        for p in params:
            tensor, context = compress(_dense_alias(p.grad))  # type: ignore[arg-type]
            sent.append(tensor)
            contexts.append(context)
        options: dict[str, Any] = {
            "op": self._op,
            "process_set": self._process_set,
            "wire": getattr(self._compression, "wire", None),
        }
        pre, post = self._scales
        if len(params) == 1 and params[0] not in self._group_of:
            handle = allreduce_async_(
                sent[0], None, self._names[params[0]], prescale_factor=pre, postscale_factor=post, **options
            )
        else:
            handle = grouped_allreduce_async_(
                sent, None, self._names[params[0]] + ".group", prescale_factor=pre, postscale_factor=post, **options
            )
        return _Work(params, sent, handle, contexts)

    def _send_sparse(self, p: torch.Tensor) -> _Work:
        grad, name = p.grad, self._names[p]
        assert grad is not None
        if self._sparse_as_dense:
            handle = allreduce_async(grad.to_dense(), None, name, self._op, *self._scales, process_set=self._process_set)
        else:
            handle = sparse_allreduce_async(grad, name, self._op, self._process_set)
        return _Work((p,), (), handle, ())

    # ---- Before the step

    def synchronize(self) -> None:
        """Waits until all gradients are those of all ranks. :meth:`step` does it; call it yourself to change gradients before,
        to clip them for example. Gradients that were not computed on this rank count as zeros.
        """
        if self._synchronized or self._alone():
            self._passes_left.clear()
            return
        for p in self._parameters():
            if p not in self._under_way:
                self._send(self._group_of.get(p, (p,)))
        works = {id(work): work for work in self._under_way.values()}
        try:
            for work in works.values():
                work.handle.wait()
            for work in works.values():
                self._finish(work)
        finally:
            self._under_way.clear()
            self._passes_left.clear()
            self._arrived.clear()
        self._synchronized = True

    def _finish(self, work: _Work) -> None:
        result = work.handle.wait()
        for p, version in zip(work.params, work.versions, strict=True):
            if p.grad is None or p.grad._version != version:
                raise RuntimeError(
                    f"{self._names[p]} was changed while it was being reduced; call optimizer.synchronize() first, as before"
                    " clip_grad_norm_() or GradScaler.unscale_()"
                )
        if not work.sent:
            p = work.params[0]
            sparse_dims = p.grad.sparse_dim()  # type: ignore[union-attr]
            p.grad = result if result.is_sparse else result.to_sparse(sparse_dims)
            return
        with torch.no_grad():
            for p, sent, context in zip(work.params, work.sent, work.contexts, strict=True):
                alias = _dense_alias(p.grad)  # type: ignore[arg-type]
                if sent.data_ptr() != alias.data_ptr():
                    alias.copy_(self._compression.decompress(sent, context))

    @contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """Within it :meth:`step` does not synchronize::

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

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Synchronizes, unless :meth:`synchronize` has been called since the last backward, and steps.

        A closure's gradients are those of all ranks too, and so is the loss that it gives: the average.
        """
        own = super().step  # type: ignore[misc]
        if closure is None:
            if not self._skip:
                self.synchronize()
            self._synchronized = False
            return own()
        evaluate = closure

        def evaluate_together() -> Any:
            loss = evaluate()
            self.synchronize()
            self._synchronized = False
            if isinstance(loss, torch.Tensor) and not self._alone():
                loss = allreduce_async(loss.detach(), op=Average, process_set=self._process_set).wait()
            return loss

        return own(evaluate_together)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """As the optimizer's own. Raises RuntimeError between backward and step: gradients are on their way."""
        if self._under_way:
            raise RuntimeError(
                "zero_grad() was called after backward() and before step() or synchronize(), while gradients are being reduced"
            )
        super().zero_grad(set_to_none)  # type: ignore[misc]

    def set_backward_passes_per_step(self, passes: int) -> None:
        """How many times gradients are accumulated before they are reduced."""
        if passes < 1:
            raise ValueError(f"backward_passes_per_step is {passes}; it must be at least 1")
        self._passes = passes
        self._passes_left.clear()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """As the optimizer's own; gradients on their way are given up."""
        self._under_way.clear()
        self._passes_left.clear()
        self._arrived.clear()
        self._synchronized = False
        super().load_state_dict(state_dict)  # type: ignore[misc]


def _remove_hooks(hooks: list[Any]) -> None:
    for hook in hooks:
        hook.remove()


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
) -> Any:
    """The optimizer with gradients reduced over all ranks, while backward still runs.

    The result is of a class made from the optimizer's own, shares its state, and takes its place; do not use both.

    named_parameters: ``model.named_parameters()``; names for messages and timelines, the same on all ranks. Without it
        parameters are known by their order.
    compression: ``Compression.fp16``, ``.bf16``, ``.top_k(0.01)``, ...
    backward_passes_per_step: so many backward passes add up before gradients are reduced.
    op: Average, Sum, or Adasum, which combines what ranks' steps changed.
    gradient_predivide_factor: with Average, divides by it before the sum, and by size / factor after.
    groups: a number of groups, or lists of parameters, whose gradients are reduced together; ``num_groups`` is its older name.
    sparse_as_dense: reduce sparse gradients as dense ones.
    process_set: reduce over these ranks only; on others it is the plain optimizer.
    """
    if gradient_predivide_factor != 1.0 and op != Average:
        raise ValueError("gradient_predivide_factor needs op=Average")
    if not gradient_predivide_factor > 0:
        raise ValueError(f"gradient_predivide_factor is {gradient_predivide_factor}; it must be more than 0")
    if num_groups != 0:
        warnings.warn("num_groups is deprecated; give groups", DeprecationWarning, stacklevel=2)
        groups = num_groups if groups is None else groups
    if backward_passes_per_step < 1:
        raise ValueError(f"backward_passes_per_step is {backward_passes_per_step}; it must be at least 1")
    _world.current()
    own = type(optimizer)
    if isinstance(optimizer, (DistributedMixin, AdasumMixin)):
        raise ValueError("the optimizer is a DistributedOptimizer already")
    mixin: type = AdasumMixin if op == Adasum else DistributedMixin
    made: Any = object.__new__(type(own.__name__, (mixin, own), {"__module__": own.__module__}))
    made.__dict__ = optimizer.__dict__
    if op == Adasum:
        made._distribute(named_parameters, compression, backward_passes_per_step, process_set)
    else:
        made._distribute(
            named_parameters,
            compression,
            backward_passes_per_step,
            op,
            gradient_predivide_factor,
            groups,
            sparse_as_dense,
            process_set,
        )
    return made
