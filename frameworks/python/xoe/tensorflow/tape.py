"""``tf.GradientTape`` whose gradients are those of all ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from xoe.process_sets import ProcessSet, global_process_set
from xoe.reduction import Average, ReduceOp
from xoe.tensorflow.compression import Compression
from xoe.tensorflow.gradients import Reduction, reference


def DistributedGradientTape(
    gradtape: tf.GradientTape,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    sparse_as_dense: bool = False,
    op: ReduceOp = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: int | Sequence[Sequence[Any]] | None = None,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
) -> Any:
    """The tape; its ``gradient()`` reduces gradients over all ranks.

    compression: ``Compression.fp16`` or ``Compression.bf16``. sparse_as_dense: gradients of embeddings become dense before
        they are reduced.
    groups: so many operations, or lists of variables that are one operation each; default: buckets of 25 MB.
    scale_local_gradients: see ``register_local_source``.
    """
    del device_dense, device_sparse
    reduction = Reduction(
        compression,
        sparse_as_dense,
        ReduceOp(op),
        gradient_predivide_factor,
        groups or num_groups,
        process_set,
        scale_local_gradients,
    )
    kind = type(gradtape)
    made = type(kind.__name__, (_DistributedTape, kind), {"__module__": kind.__module__})
    gradtape.__class__ = made
    tape: Any = gradtape
    tape._xoe_reduction = reduction
    tape._xoe_local = set()
    return tape


class _DistributedTape:
    _xoe_reduction: Reduction
    _xoe_local: set[Any]

    def register_local_source(self, source: Any) -> None:
        """The variable is this rank's own: its gradient is not reduced, but divided by the number of ranks, unless
        ``scale_local_gradients`` is False."""
        self._xoe_local.add(reference(source))

    register_local_var = register_local_source

    def gradient(self, target: Any, sources: Any, output_gradients: Any = None, *arguments: Any, **options: Any) -> Any:
        """As ``tf.GradientTape.gradient``, over all ranks."""
        own = super().gradient(target, sources, output_gradients, *arguments, **options)  # type: ignore[misc]
        if self._xoe_reduction.process_set._stays_alone():
            return own
        flat = tf.nest.flatten(own, expand_composites=False)
        reduced = self._xoe_reduction.reduce(flat, tf.nest.flatten(sources), self._xoe_local)
        return tf.nest.pack_sequence_as(own, reduced)


def PartialDistributedGradientTape(
    gradtape: tf.GradientTape, device_dense: str = "", device_sparse: str = "", *, local_layers: Any = None, **options: Any
) -> Any:
    """:func:`DistributedGradientTape`; the variables of ``local_layers`` are this rank's own."""
    tape = DistributedGradientTape(gradtape, device_dense, device_sparse, **options)
    layers = local_layers if isinstance(local_layers, (list, tuple)) else [local_layers] if local_layers is not None else []
    for layer in layers:
        for variable in layer.trainable_weights:
            tape.register_local_source(variable)
    return tape
