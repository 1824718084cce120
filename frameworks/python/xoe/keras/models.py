"""Loading a model whose optimizer shall be distributed."""

from __future__ import annotations

from typing import Any

from xoe.keras.optimizer import DistributedOptimizer
from xoe.keras.versions import keras


def load_model(
    filepath: str, custom_optimizers: Any = None, custom_objects: dict[str, Any] | None = None, compression: Any = None
) -> Any:
    """Keras's ``load_model``; the optimizer of the model reduces gradients over all ranks, whether it did when it was saved
    or not.

    custom_optimizers: classes of optimizers that Keras does not know. A file that a distributed optimizer was saved in needs
    no Xoe to be loaded by ``keras.models.load_model``.
    """
    known = {kind.__name__: kind for kind in custom_optimizers or ()}
    model = keras.models.load_model(filepath, custom_objects={**known, **(custom_objects or {})})
    if model.optimizer is not None:
        DistributedOptimizer(model.optimizer, compression=compression)
    return model
