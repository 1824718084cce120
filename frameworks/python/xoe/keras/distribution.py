"""Keras's own data parallelism, ``keras.distribution.DataParallel``, over the ranks of ``xoe run``. It works on JAX alone."""

from __future__ import annotations

from typing import Any

from xoe.errors import UnsupportedError
from xoe.keras.versions import backend, keras


def initialize(**options: Any) -> None:
    """Connects the ranks, so that ``keras.distribution.DataParallel(auto_shard_dataset=False)`` trains one model over all of
    them.

    Call it before anything else of Keras. Each rank gives ``fit`` its own part of the data. options: those of
    ``jax.distributed.initialize()``. Raises UnsupportedError on Keras's other backends, where DataParallel would train every
    rank alone without a word (seen with Keras 3.15).
    """
    if backend() != "jax":
        raise UnsupportedError(
            f"keras.distribution does not connect ranks on the {backend()} backend: each would train alone. "
            "Use xoe.keras.DistributedOptimizer(optimizer), which works on every backend"
        )
    from xoe.jax.initialize import initialize as initialize_jax

    initialize_jax(**options)


def DataParallel(**options: Any) -> Any:
    """:func:`initialize`, and ``keras.distribution.DataParallel`` set as the distribution of all models made from now on."""
    initialize()
    made = keras.distribution.DataParallel(**{"auto_shard_dataset": False, **options})
    keras.distribution.set_distribution(made)
    return made
