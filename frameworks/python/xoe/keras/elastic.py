"""Elastic training with Keras, on every backend: see :mod:`xoe.elastic`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from xoe import _arrays, _failures
from xoe import elastic as _elastic
from xoe.elastic import ObjectState
from xoe.keras.callbacks import CommitStateCallback as CommitStateCallback
from xoe.keras.callbacks import UpdateBatchStateCallback as UpdateBatchStateCallback
from xoe.keras.callbacks import UpdateEpochStateCallback as UpdateEpochStateCallback
from xoe.keras.versions import backend, to_numpy, variables_of, wait_for_programs

Result = TypeVar("Result")


class KerasState(ObjectState):
    """A model and its optimizer, and plain objects.

    For example::

        state = KerasState(model, epoch=0, batch=0)
    """

    def __init__(self, model: Any, optimizer: Any = None, **values: Any) -> None:
        self.model = model
        self.optimizer = optimizer if optimizer is not None else model.optimizer
        self._copies: list[Any] = []
        super().__init__(**values)
        self._copy()

    def _kept(self) -> list[Any]:
        return [*self.model.weights, *variables_of(self.optimizer, self.model)]

    def _now(self) -> list[Any]:
        synced = getattr(self.model, "jax_state_sync", None)
        if synced is not None:  # fit() on JAX keeps the state apart
            synced()
        return [np.array(to_numpy(variable)) for variable in self._kept()]

    def _copy(self) -> None:
        self._copies = self._now()

    def save(self) -> None:
        self._copy()
        super().save()

    def _assign_all(self, values: list[Any]) -> None:
        for variable, value in zip(self._kept(), values, strict=True):
            variable.assign(value)

    def restore(self) -> None:
        self._assign_all(self._copies)
        super().restore()

    def _copy_from(self, source: int) -> None:
        wait_for_programs()
        self._assign_all(_arrays.broadcast(self._now(), source))
        super()._copy_from(source)
        self._copy()

    def reset(self) -> None:
        """Compiled programs of JAX know the ranks of the world that they were made in."""
        if backend() == "jax":
            import jax

            from xoe.jax.failures import forget_failures

            forget_failures()
            jax.clear_caches()


def run(function: Callable[..., Result]) -> Callable[..., Result]:
    """Like :func:`xoe.elastic.run`; errors that come out of the backend's programs are understood, too."""

    @functools.wraps(function)
    def wrapper(*arguments: Any, **options: Any) -> Result:
        with _failures.typed(Exception):
            return function(*arguments, **options)

    return _elastic.run(wrapper)
