"""Optimizers whose gradients are those of all ranks: TensorFlow 1's here, Keras's in ``xoe.keras``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from xoe.errors import InvalidArgumentError
from xoe.process_sets import ProcessSet, global_process_set
from xoe.reduction import Average, ReduceOp
from xoe.tensorflow.collectives import broadcast_variables
from xoe.tensorflow.compression import Compression
from xoe.tensorflow.first_step import ADVICE
from xoe.tensorflow.gradients import Reduction, reference


def DistributedOptimizer(
    optimizer: Any,
    name: str | None = None,
    use_locking: bool = False,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    sparse_as_dense: bool = False,
    backward_passes_per_step: int = 1,
    op: ReduceOp = Average,
    gradient_predivide_factor: float = 1.0,
    average_aggregated_gradients: bool = False,
    num_groups: int = 0,
    groups: int | Sequence[Sequence[Any]] | None = None,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
) -> Any:
    """The optimizer, fed with gradients that are reduced over all ranks: one of Keras, or of ``tf.compat.v1.train``.

    The arguments are those of :func:`DistributedGradientTape` and of :func:`xoe.keras.DistributedOptimizer`.
    """
    del name, use_locking, device_dense, device_sparse, average_aggregated_gradients
    reduction = Reduction(
        compression,
        sparse_as_dense,
        ReduceOp(op),
        gradient_predivide_factor,
        groups or num_groups,
        process_set,
        scale_local_gradients,
    )
    if not isinstance(optimizer, tf.compat.v1.train.Optimizer):
        from xoe.keras.optimizer import distribute

        return distribute(optimizer, reduction, backward_passes_per_step, ADVICE)
    if backward_passes_per_step != 1:
        raise InvalidArgumentError(
            "backward_passes_per_step is for Keras's optimizers; add gradients up before compute_gradients()"
        )
    kind = type(optimizer)
    optimizer.__class__ = type(kind.__name__, (_DistributedV1, kind), {"__module__": kind.__module__})
    optimizer._xoe_reduction, optimizer._xoe_local = reduction, set()
    return optimizer


class _DistributedV1:
    _xoe_reduction: Reduction
    _xoe_local: set[Any]

    def register_local_var(self, variable: Any) -> None:
        """The variable is this rank's own: its gradient is not reduced."""
        self._xoe_local.add(reference(variable))

    def compute_gradients(self, *arguments: Any, **options: Any) -> Any:
        """As the base class, over all ranks."""
        pairs = super().compute_gradients(*arguments, **options)  # type: ignore[misc]
        if self._xoe_reduction.process_set._stays_alone():
            return pairs
        gradients, variables = [gradient for gradient, _ in pairs], [variable for _, variable in pairs]
        return list(zip(self._xoe_reduction.reduce(gradients, variables, self._xoe_local), variables, strict=True))


def broadcast_global_variables(root_rank: int) -> Any:
    """The operation that assigns rank ``root_rank``'s values to all global variables of a graph of TensorFlow 1."""
    if tf.executing_eagerly():
        raise RuntimeError("broadcast_global_variables() does not support eager execution; use broadcast_variables() instead")
    return broadcast_variables(tf.compat.v1.global_variables(), root_rank)


class BroadcastGlobalVariablesHook(tf.compat.v1.train.SessionRunHook):
    """Broadcasts all global variables from ``root_rank`` when a session of TensorFlow 1 has been made."""

    def __init__(self, root_rank: int, device: str = "") -> None:
        super().__init__()
        self.root_rank, self.device = root_rank, device
        self.bcast_op: Any = None

    def begin(self) -> None:
        """Adds the operation to the graph."""
        if self.bcast_op is None or self.bcast_op.graph != tf.compat.v1.get_default_graph():
            with tf.device(self.device):
                self.bcast_op = broadcast_global_variables(self.root_rank)

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Runs it."""
        del coord
        session.run(self.bcast_op)
