"""Elastic training with Keras, on every backend: see :mod:`xoe.elastic`."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from xoe import _failures
from xoe import elastic as _elastic
from xoe._variables_state import VariablesState
from xoe.keras.callbacks import CommitStateCallback as CommitStateCallback
from xoe.keras.callbacks import UpdateBatchStateCallback as UpdateBatchStateCallback
from xoe.keras.callbacks import UpdateEpochStateCallback as UpdateEpochStateCallback
from xoe.keras.versions import backend, need_weights, to_numpy, variables_of, wait_for_programs
from xoe.ledger import Ledger as Ledger

Result = TypeVar("Result")


class KerasState(VariablesState):
    """A model and its optimizer, plain objects, and data sets and ledgers.

    For example::

        state = KerasState(model, epoch=0, batch=0)

    A :class:`xoe.keras.data.ImageDataset` in it is told of each step by ``CommitStateCallback``. The rest of an epoch has
    fewer batches than the next one, and ``fit`` counts them once: call it for each epoch::

        while state.images.epoch < EPOCHS:
            model.fit(state.images, initial_epoch=state.images.epoch, epochs=state.images.epoch + 1,
                      callbacks=[hvd.elastic.CommitStateCallback(state)])
    """

    def __init__(self, model: Any, optimizer: Any = None, **values: Any) -> None:
        need_weights(model)
        self.model = model
        self.optimizer = optimizer if optimizer is not None else model.optimizer
        super().__init__(**values)

    def _kept(self) -> list[Any]:
        return [*self.model.weights, *variables_of(self.optimizer, self.model)]

    def _now(self) -> list[Any]:
        synced = getattr(self.model, "jax_state_sync", None)
        if synced is not None:  # fit() on JAX keeps the state apart
            synced()
        return [np.array(to_numpy(variable)) for variable in self._kept()]

    def _copy_from(self, source: int) -> None:
        wait_for_programs()
        super()._copy_from(source)

    def reset(self) -> None:
        """Compiled programs of JAX know the ranks of the world that they were made in."""
        gc.collect()  # iterators of a fit() that was broken off, which read ahead
        super().reset()
        if backend() == "jax":
            import jax

            from xoe.jax.failures import forget_failures

            forget_failures()
            jax.clear_caches()


def run(function: Callable[..., Result]) -> Callable[..., Result]:
    """Like :func:`xoe.elastic.run`; errors that come out of the backend's programs are understood, too."""
    return _elastic.run(_failures.typed(Exception)(function))
