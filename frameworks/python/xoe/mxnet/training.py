"""Optimizers and Gluon trainers whose gradients are those of all ranks."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import mxnet as mx
import numpy as np

from xoe.errors import InvalidArgumentError
from xoe.first_step import FirstStep
from xoe.mxnet.collectives import broadcast_, grouped_allreduce_
from xoe.mxnet.first_step import ADVICE, look
from xoe.process_sets import ProcessSet, global_process_set


class Compression:
    """``Compression.fp16`` sends gradients as float16."""

    class none:  # noqa: N801 (Horovod's name)
        """Leaves arrays unchanged."""

        @staticmethod
        def compress(tensor: Any) -> tuple[Any, Any]:
            """The array to send, and a context for ``decompress``."""
            return tensor, None

        @staticmethod
        def decompress(tensor: Any, context: Any) -> Any:
            """The received array in its original type."""
            del context
            return tensor

    class fp16:  # noqa: N801 (Horovod's name)
        """Casts floats to float16 and back; leaves other types unchanged."""

        @staticmethod
        def compress(tensor: Any) -> tuple[Any, Any]:
            """The array to send, and its type."""
            is_float = np.dtype(tensor.dtype).kind == "f"
            return (tensor.astype("float16", copy=False) if is_float else tensor), tensor.dtype

        @staticmethod
        def decompress(tensor: Any, context: Any) -> Any:
            """The received array in its original type."""
            return tensor.astype(context, copy=False)


def _reduce(gradients: list[Any], name: str, predivide: float, process_set: ProcessSet, compression: Any) -> None:
    pairs = [compression.compress(gradient) for gradient in gradients]
    sent = [tensor for tensor, _ in pairs]
    grouped_allreduce_(sent, name=name, prescale_factor=1.0 / predivide, postscale_factor=predivide, process_set=process_set)
    for gradient, (tensor, context) in zip(gradients, pairs, strict=True):
        if tensor is not gradient:
            gradient[:] = compression.decompress(tensor, context)


class DistributedOptimizer(mx.optimizer.Optimizer):
    """An optimizer that averages gradients over all ranks before it updates weights, for ``mx.mod.Module`` and loops of
    one's own."""

    def __init__(
        self,
        optimizer: Any,
        gradient_predivide_factor: float = 1.0,
        num_groups: int = 0,
        process_set: ProcessSet = global_process_set,
    ) -> None:
        del num_groups
        self._optimizer, self._predivide, self._process_set = optimizer, gradient_predivide_factor, process_set

    def __getattr__(self, name: str) -> Any:
        return getattr(self._optimizer, name)

    def create_state(self, index: Any, weight: Any) -> Any:
        """As the optimizer."""
        return self._optimizer.create_state(index, weight)

    def create_state_multi_precision(self, index: Any, weight: Any) -> Any:
        """As the optimizer."""
        return self._optimizer.create_state_multi_precision(index, weight)

    def _average(self, index: Any, gradient: Any) -> None:
        if not self._process_set.included() or self._process_set.size() == 1:
            return
        gradients = list(gradient) if isinstance(gradient, (list, tuple)) else [gradient]
        names = index if isinstance(index, (list, tuple)) else [index]
        _reduce(gradients, f"mxnet.{names[0]}:{names[-1]}", self._predivide, self._process_set, Compression.none)

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """As the optimizer, with the gradients of all ranks."""
        self._average(index, grad)
        self._optimizer.update(index, weight, grad, state)

    def update_multi_precision(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """As the optimizer, with the gradients of all ranks."""
        self._average(index, grad)
        self._optimizer.update_multi_precision(index, weight, grad, state)

    def set_learning_rate(self, lr: float) -> None:
        """As the optimizer."""
        self._optimizer.set_learning_rate(lr)

    def set_lr_mult(self, args_lr_mult: Any) -> None:
        """As the optimizer."""
        self._optimizer.set_lr_mult(args_lr_mult)

    def set_wd_mult(self, args_wd_mult: Any) -> None:
        """As the optimizer."""
        self._optimizer.set_wd_mult(args_wd_mult)


class DistributedTrainer(mx.gluon.Trainer):
    """``gluon.Trainer`` that averages gradients over all ranks: one operation a step.

    prefix: of the operation's name, where a program has several trainers. num_groups: has no effect.
    """

    def __init__(
        self,
        params: Any,
        optimizer: Any,
        optimizer_params: Any = None,
        compression: Any = Compression.none,
        gradient_predivide_factor: float = 1.0,
        prefix: str | None = None,
        num_groups: int = 0,
        process_set: ProcessSet = global_process_set,
    ) -> None:
        del num_groups
        if isinstance(optimizer, DistributedOptimizer):
            optimizer = optimizer._optimizer
            warnings.warn(
                "DistributedTrainer takes the plain optimizer; it has been taken out of the DistributedOptimizer", stacklevel=2
            )
        if isinstance(params, (list, tuple)):
            params = sorted(params, key=lambda param: param.name)
        super().__init__(params, optimizer, optimizer_params=optimizer_params, kvstore=None)
        self._xoe = (prefix or "", gradient_predivide_factor, process_set, compression)
        self._xoe_first_step = FirstStep(ADVICE, process_set)

    def _allreduce_grads(self) -> None:
        prefix, predivide, process_set, compression = self._xoe
        if not process_set.included() or process_set.size() == 1:
            return
        trained = [param for param in self._params if param.grad_req != "null"]
        look(self._xoe_first_step, trained)
        _reduce([param.list_grad()[0] for param in trained], f"mxnet.{prefix}gradients", predivide, process_set, compression)


def broadcast_parameters(params: Any, root_rank: int = 0, prefix: str | None = None) -> None:
    """Overwrites parameters with those of ``root_rank``: ``block.collect_params()``, or a dict of NDArrays.

    Parameters whose shape is not known yet are broadcast when they are initialized.
    """
    if not (isinstance(params, Mapping) or hasattr(params, "items")):
        raise InvalidArgumentError(f"params is a {type(params).__name__}; pass block.collect_params() or a dict of NDArrays")
    for name in sorted(params.keys()):
        param, called = params[name], f"mxnet.broadcast.{prefix or ''}{name}"
        if isinstance(param, mx.nd.NDArray):
            broadcast_(param, root_rank, called)
            continue
        try:
            array = param.data()
        except mx.gluon.parameter.DeferredInitializationError:
            _broadcast_when_made(param, root_rank, called)
        else:
            broadcast_(array, root_rank, called)


def _broadcast_when_made(param: Any, root_rank: int, name: str) -> None:
    make = param._init_impl

    def make_and_broadcast(*arguments: Any, **options: Any) -> None:
        make(*arguments, **options)
        broadcast_(param.data(), root_rank, name)

    param._init_impl = make_and_broadcast
