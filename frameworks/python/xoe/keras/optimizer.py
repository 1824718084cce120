"""Keras's optimizers, of Keras 3 with any backend and of tf_keras, fed with gradients that are reduced over all ranks."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from xoe.errors import InvalidArgumentError, UnsupportedError
from xoe.first_step import Advice, FirstStep
from xoe.keras.first_step import ADVICE, look_on_jax, look_on_torch
from xoe.keras.versions import backend
from xoe.process_sets import ProcessSet, global_process_set
from xoe.reduction import Average, ReduceOp


def DistributedOptimizer(
    optimizer: Any,
    name: str | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = None,
    sparse_as_dense: bool = False,
    gradient_predivide_factor: float = 1.0,
    op: ReduceOp = Average,
    num_groups: int = 0,
    groups: int | Sequence[Sequence[Any]] | None = None,
    process_set: ProcessSet = global_process_set,
    backward_passes_per_step: int = 1,
    average_aggregated_gradients: bool = False,
    scale_local_gradients: bool = True,
) -> Any:
    """The optimizer itself, which from now on reduces gradients over all ranks before it applies them.

    For ``model.compile(optimizer=...)`` and for loops of one's own. The learning rate is not changed: scale it with
    ``size()`` where the whole batch grows with the number of ranks.

    compression: ``Compression.fp16`` or ``Compression.bf16``. sparse_as_dense: TensorFlow's gradients of embeddings become
        dense first.
    backward_passes_per_step: so many gradients are averaged on each rank, by Keras 3's ``gradient_accumulation_steps``, before
        they are applied. average_aggregated_gradients: has no effect, since Keras always averages them.
    groups: so many operations, or lists of variables that are one operation each, on TensorFlow.
    """
    del name, device_dense, device_sparse, average_aggregated_gradients
    settings = Settings(
        compression,
        sparse_as_dense,
        ReduceOp(op),
        gradient_predivide_factor,
        groups or num_groups,
        process_set,
        scale_local_gradients,
    )
    return distribute(optimizer, settings, backward_passes_per_step)


def PartialDistributedOptimizer(optimizer: Any, *arguments: Any, local_layers: Any = None, **options: Any) -> Any:
    """:func:`DistributedOptimizer`; the variables of ``local_layers``, a layer or a list of them, are this rank's own."""
    distributed = DistributedOptimizer(optimizer, *arguments, **options)
    layers = local_layers if isinstance(local_layers, (list, tuple)) else [] if local_layers is None else [local_layers]
    for layer in layers:
        for variable in layer.trainable_weights:
            distributed.register_local_var(variable)
    return distributed


@dataclasses.dataclass(frozen=True)
class Settings:
    """What :class:`xoe.tensorflow.gradients.Reduction` has, without TensorFlow."""

    compression: Any
    sparse_as_dense: bool
    op: ReduceOp
    gradient_predivide_factor: float
    groups: Any
    process_set: ProcessSet
    scale_local_gradients: bool


def distribute(optimizer: Any, reduction: Any, backward_passes_per_step: int = 1, advice: Advice = ADVICE) -> Any:
    """Gives the optimizer a class that reduces; it keeps its state, and is saved as what it was. advice: for the first
    steps."""
    if isinstance(optimizer, str):
        raise InvalidArgumentError(f"pass an optimizer, such as keras.optimizers.get({optimizer!r}), not its name")
    if isinstance(optimizer, _Distributed):
        raise InvalidArgumentError("this optimizer is distributed already: it would reduce gradients twice")
    if backward_passes_per_step < 1:
        raise InvalidArgumentError(f"backward_passes_per_step is {backward_passes_per_step}; pass 1 or more")
    kind = type(optimizer)
    modern = kind.__module__.partition(".")[0] == "keras" or any(base.__module__.startswith("keras.") for base in kind.__mro__)
    if modern and backward_passes_per_step > 1:
        if optimizer.built:
            raise InvalidArgumentError("the optimizer has been used before: pass gradient_accumulation_steps when it is made")
        if hasattr(optimizer, "inner_optimizer"):
            raise InvalidArgumentError("pass gradient_accumulation_steps to the optimizer inside of the LossScaleOptimizer")
        if optimizer.gradient_accumulation_steps:
            raise InvalidArgumentError("the optimizer has gradient_accumulation_steps: leave out backward_passes_per_step")
    if not modern and backward_passes_per_step > 1:
        raise UnsupportedError(
            "backward_passes_per_step needs Keras 3; with tf_keras add gradients up before apply_gradients()"
        )
    mixin = _DistributedKeras3 if modern else _DistributedLegacy
    optimizer.__class__ = type(kind.__name__, (mixin, kind), {"__module__": kind.__module__, "__qualname__": kind.__qualname__})
    vars(optimizer)["_xoe"] = _Reducer(reduction, backward_passes_per_step, advice)
    return optimizer


class _Reducer:
    """How one optimizer's gradients are reduced. No part of what Keras saves or tracks."""

    def __init__(self, settings: Any, passes: int, advice: Advice) -> None:
        self.settings = settings
        self.passes = passes
        self.local: set[Any] = set()
        self.reduced = 0  # calls, traced or run
        self.step = FirstStep(advice, settings.process_set)

    def __deepcopy__(self, memo: Any) -> _Reducer:
        return self

    def alone(self) -> bool:
        return bool(self.settings.process_set._stays_alone())

    def reduce(self, using: str, gradients: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        self.reduced += 1
        return _BACKENDS[using](self, list(gradients), list(variables))


def _on_tensorflow(reducer: _Reducer, gradients: list[Any], variables: list[Any]) -> list[Any]:
    from xoe.tensorflow.compression import Compression
    from xoe.tensorflow.gradients import Reduction

    settings = reducer.settings
    if not isinstance(settings, Reduction):
        values = {field.name: getattr(settings, field.name) for field in dataclasses.fields(settings)}
        settings = Reduction(**{**values, "compression": _of_tensorflow(settings.compression, Compression)})
    return settings.reduce(gradients, variables, reducer.local, reducer.step)


def _on_jax(reducer: _Reducer, gradients: list[Any], variables: list[Any]) -> list[Any]:
    import jax.numpy as jnp

    from xoe.jax import allreduce

    settings = reducer.settings

    def reduce(dense: list[Any]) -> list[Any]:
        wire = _wire(settings.compression)
        half = wire == "fp16"
        given = [one.astype(jnp.float16) if half and jnp.issubdtype(one.dtype, jnp.floating) else one for one in dense]
        compression = "bfloat16" if wire == "bf16" else "none"
        results = allreduce(given, settings.op, compression=compression, process_set=settings.process_set, **_scales(settings))
        return [result.astype(one.dtype) for result, one in zip(results, dense, strict=True)]

    return _reduce_dense(reducer, gradients, variables, look_on_jax, reduce)


def _on_torch(reducer: _Reducer, gradients: list[Any], variables: list[Any]) -> list[Any]:
    from xoe.torch import Compression, grouped_allreduce

    settings = reducer.settings

    def reduce(dense: list[Any]) -> list[Any]:
        known: dict[str, Any] = {"none": Compression.none, "fp16": Compression.fp16, "bf16": Compression.bf16}
        compression = known[_wire(settings.compression)]
        return list(
            grouped_allreduce(
                dense, op=settings.op, compression=compression, process_set=settings.process_set, **_scales(settings)
            )
        )

    return _reduce_dense(reducer, gradients, variables, look_on_torch, reduce)


def _reduce_dense(
    reducer: _Reducer,
    gradients: list[Any],
    variables: list[Any],
    look: Callable[[FirstStep, list[Any], list[Any]], None],
    reduce: Callable[[list[Any]], list[Any]],
) -> list[Any]:
    settings = reducer.settings
    results = list(gradients)
    dense = []
    for index, (gradient, variable) in enumerate(zip(gradients, variables, strict=True)):
        if gradient is None:
            continue
        if id(variable) in reducer.local:
            results[index] = gradient / settings.process_set.size() if settings.scale_local_gradients else gradient
        else:
            dense.append(index)
    if dense:
        own = [gradients[index] for index in dense]
        look(reducer.step, own, [variables[index] for index in dense])
        for index, result in zip(dense, reduce(own), strict=True):
            results[index] = result
    return results


def _scales(settings: Any) -> dict[str, Any]:
    factor = settings.gradient_predivide_factor
    if factor == 1.0:
        return {}
    if settings.op is not Average:
        raise InvalidArgumentError("gradient_predivide_factor needs op=Average")
    return {"prescale_factor": 1.0 / factor, "postscale_factor": factor}


def _wire(compression: Any) -> str:
    known = {"NoneCompressor": "none", "FP16Compressor": "fp16", "BF16Compressor": "bf16"}
    if compression is None:
        return "none"
    name = getattr(compression, "__name__", str(compression))
    if name not in known:
        raise UnsupportedError(
            f"compression {name}: Keras's other backends than TensorFlow know Compression.none, fp16 and bf16"
        )
    return known[name]


def _of_tensorflow(compression: Any, kinds: Any) -> Any:
    """The compressor of this name that xoe.tensorflow has; a custom one as it is."""
    if hasattr(compression, "compress"):
        return compression
    return {"none": kinds.none, "fp16": kinds.fp16, "bf16": kinds.bf16}[_wire(compression)]


_BACKENDS: dict[str, Any] = {"tensorflow": _on_tensorflow, "jax": _on_jax, "torch": _on_torch}


class _Distributed:
    """What the mixins have in common."""

    _xoe: _Reducer

    def register_local_var(self, variable: Any) -> None:
        """The variable is this rank's own: its gradient is not reduced, but divided by the number of ranks."""
        self._xoe.local.add(id(variable))
        value = getattr(variable, "value", variable)
        value = variable if callable(value) else value
        if hasattr(value, "ref"):
            self._xoe.local.add(value.ref())


class _DistributedKeras3(_Distributed):
    """The mixin for Keras 3. All ways to apply gradients come through apply()."""

    def apply(self, grads: Any, trainable_variables: Any = None) -> Any:
        """As the base class, with the gradients of all ranks."""
        own: Any = super()
        if self._xoe.passes > 1 and not self.built:  # type: ignore[attr-defined]
            self.gradient_accumulation_steps = self._xoe.passes
        if self._xoe.alone():
            return own.apply(grads, trainable_variables)
        variables = trainable_variables if trainable_variables is not None else self._trainable_variables  # type: ignore[attr-defined]
        grads = list(grads)
        if len(grads) != len(variables):
            return own.apply(grads, trainable_variables)  # Keras's own error
        return own.apply(self._xoe.reduce(backend(), grads, variables), trainable_variables)

    def stateless_apply(self, optimizer_variables: Any, grads: Any, trainable_variables: Any) -> Any:
        """As the base class. A LossScaleOptimizer does not come through apply() here, and looks at the gradients first."""
        if hasattr(self, "inner_optimizer") and not self._xoe.alone():
            grads = self._xoe.reduce(backend(), list(grads), list(trainable_variables))
        return super().stateless_apply(optimizer_variables, grads, trainable_variables)  # type: ignore[misc]

    def __setattr__(self, name: str, value: Any) -> None:
        """LossScaleOptimizer does this to the optimizer that it takes in, as compile() does where the policy is
        mixed_float16."""
        if name == "loss_scale_factor" and value is None and "_xoe" in vars(self) and not self._xoe.alone():
            raise UnsupportedError(
                "a LossScaleOptimizer around a distributed optimizer: each rank would decide by its own gradients whether "
                "to step. Put the distributed one outside: "
                "hvd.DistributedOptimizer(keras.optimizers.LossScaleOptimizer(optimizer))"
            )
        super().__setattr__(name, value)

    def build(self, variables: Any) -> Any:
        """As the base class."""
        if self._xoe.passes > 1 and not self.built:  # type: ignore[attr-defined]
            self.gradient_accumulation_steps = self._xoe.passes
        return super().build(variables)  # type: ignore[misc]


class _DistributedLegacy(_Distributed):
    """The mixin for tf_keras, whose gradients come through apply_gradients()."""

    def apply_gradients(self, grads_and_vars: Any, *arguments: Any, **options: Any) -> Any:
        """As the base class, with the gradients of all ranks."""
        own: Any = super()
        pairs = list(grads_and_vars)
        if not self._xoe.alone():
            gradients = self._xoe.reduce("tensorflow", [one for one, _ in pairs], [variable for _, variable in pairs])
            pairs = list(zip(gradients, (variable for _, variable in pairs), strict=True))
        return own.apply_gradients(pairs, *arguments, **options)
