"""Which Keras: Keras 3, or tf_keras where TensorFlow uses that (``TF_USE_LEGACY_KERAS=1``), and what they call differently."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from xoe.errors import InvalidArgumentError

__all__ = ["LEGACY", "backend", "keras", "learning_rate", "need_weights", "to_numpy", "variables_of", "wait_for_programs"]

LEGACY = os.environ.get("TF_USE_LEGACY_KERAS", "").lower() in ("1", "true")

if LEGACY:
    import tf_keras as keras
else:
    import keras


def backend() -> str:
    """ "tensorflow", "jax" or "torch"."""
    return "tensorflow" if LEGACY else str(keras.backend.backend())


def wait_for_programs() -> None:
    """Before this thread communicates by itself: programs of JAX that were called before have communicated then, on all
    ranks alike."""
    if backend() == "jax":
        import jax

        jax.effects_barrier()


def to_numpy(value: Any) -> Any:
    """An array, tensor or variable as an array of NumPy."""
    if LEGACY:
        return np.asarray(value.numpy() if hasattr(value, "numpy") else value)
    return np.asarray(keras.ops.convert_to_numpy(value))


def need_weights(model: Any) -> None:
    """Refuses a model that has none yet: they could not be saved."""
    if not getattr(model, "built", True):
        raise InvalidArgumentError(
            f"the model {getattr(model, 'name', model)!r} has no weights yet: give it an input shape, or call model.build()"
        )


def variables_of(optimizer: Any, model: Any) -> list[Any]:
    """The state of an optimizer, which is made where there is none yet."""
    if LEGACY:
        if hasattr(optimizer, "build") and not getattr(optimizer, "_built", True):
            optimizer.build(model.trainable_variables)
        return list(optimizer.variables() if callable(optimizer.variables) else optimizer.variables)
    if not optimizer.built:
        optimizer.build(model.trainable_variables)
    return list(optimizer.variables)


def learning_rate(optimizer: Any) -> float:
    """Its present value."""
    return float(to_numpy(optimizer.learning_rate))
