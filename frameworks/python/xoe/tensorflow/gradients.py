"""Reduces the gradients of a step: what the tape, TensorFlow's optimizers and Keras's have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from xoe.errors import InvalidArgumentError
from xoe.first_step import FirstStep
from xoe.process_sets import ProcessSet, global_process_set
from xoe.reduction import Average, ReduceOp
from xoe.tensorflow import first_step
from xoe.tensorflow.collectives import allreduce, reduce_dense
from xoe.tensorflow.compression import Compression
from xoe.tensorflow.topology import size_of

_BUCKET_BYTES = 25 << 20


@dataclass(frozen=True)
class Reduction:
    """How gradients are reduced; the arguments are Horovod's."""

    compression: Any = Compression.none
    sparse_as_dense: bool = False
    op: ReduceOp = Average
    gradient_predivide_factor: float = 1.0
    groups: Any = None
    process_set: ProcessSet = global_process_set
    scale_local_gradients: bool = True

    def __post_init__(self) -> None:
        if self.gradient_predivide_factor != 1.0 and self.op is not Average:
            raise InvalidArgumentError("gradient_predivide_factor needs op=Average")

    def reduce(
        self,
        gradients: Sequence[Any],
        variables: Sequence[Any],
        local: Any = frozenset(),
        step: FirstStep | None = None,
    ) -> list[Any]:
        """The gradients of all ranks. None stays None, which it must be on all ranks alike; ``local``: references of
        variables whose gradients are this rank's own, and only scaled like an average. step: of an optimizer, whose first
        steps are looked at; None: of tapes."""
        results = list(gradients)
        dense: list[int] = []
        for index, (gradient, variable) in enumerate(zip(gradients, variables, strict=True)):
            if gradient is None:
                continue
            if reference(variable) in local:
                if self.scale_local_gradients:
                    results[index] = gradient / size_of(self.process_set, gradient.dtype)
                continue
            if isinstance(gradient, tf.IndexedSlices):
                if not self.sparse_as_dense:
                    results[index] = allreduce(gradient, op=self.op, process_set=self.process_set)
                    continue
                results[index] = tf.convert_to_tensor(gradient)
            dense.append(index)
        own = [results[index] for index in dense]
        sources = [variables[index] for index in dense]
        watch = first_step.look(step or first_step.of_tapes(self.process_set, own), own, sources)
        for bucket in self._buckets(own, [reference(source) for source in sources]):
            reduced = self._reduce_dense([own[at] for at in bucket], watch)
            for at, result in zip(bucket, reduced, strict=True):
                results[dense[at]] = result
        return results

    def _reduce_dense(self, tensors: list[Any], watch: Any) -> list[Any]:
        factor = self.gradient_predivide_factor
        scales = (1.0 / factor, factor)
        return reduce_dense(tensors, self.compression, self.op, scales, self.process_set, watch=watch)

    def _buckets(self, tensors: Sequence[Any], references: Sequence[Any]) -> list[list[int]]:
        """Which tensors are one operation. Backward has the last ones first, and in a graph their operation runs meanwhile."""
        count = len(tensors)
        if count == 0:
            return []
        if isinstance(self.groups, int) and self.groups > 0:
            each = -(-count // self.groups)
            return [list(range(begin, min(begin + each, count))) for begin in range(0, count, each)]
        if self.groups and not isinstance(self.groups, int):
            named = [[reference(variable) for variable in group] for group in self.groups]
            grouped = [[references.index(one) for one in group if one in references] for group in named]
            taken = {index for group in grouped for index in group}
            return [group for group in grouped if group] + [[index] for index in range(count) if index not in taken]
        if tf.executing_eagerly():
            return [list(range(count))]
        buckets: list[list[int]] = []
        filled = _BUCKET_BYTES
        for index in reversed(range(count)):
            shape = tensors[index].shape
            elements = shape.num_elements() if shape.is_fully_defined() else 0
            if filled >= _BUCKET_BYTES:
                buckets.append([])
                filled = 0
            buckets[-1].append(index)
            filled += elements * tensors[index].dtype.size
        return buckets


def reference(variable: Any) -> Any:
    """What a variable is told by: TensorFlow's own, and Keras 3's around one, are the same variable."""
    inner = getattr(variable, "value", variable)
    inner = variable if callable(inner) else inner
    return inner.ref() if hasattr(inner, "ref") else id(inner)
