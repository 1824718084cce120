"""Elastic training with TensorFlow: see :mod:`xoe.elastic`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from xoe import elastic as _elastic
from xoe._variables_state import VariablesState
from xoe.elastic import ObjectState as ObjectState
from xoe.elastic import State as State
from xoe.errors import UnsupportedError
from xoe.keras.versions import need_weights, variables_of
from xoe.ledger import Ledger as Ledger
from xoe.tensorflow.failures import typed_errors

Result = TypeVar("Result")


def _global_variables() -> list[Any]:
    import tensorflow as tf

    return list(tf.compat.v1.global_variables())


class TensorFlowState(VariablesState):
    """Variables, plain objects, and data sets and ledgers, one attribute per keyword.

    variables: None: those of TensorFlow 1's collection of global variables. session: TensorFlow 1's; it is not supported.
    """

    def __init__(self, variables: Sequence[Any] | None = None, session: Any = None, **values: Any) -> None:
        if session is not None:
            raise UnsupportedError("TensorFlowState: sessions of TensorFlow 1 are not supported; run eagerly, without session=")
        self.variables = list(_global_variables() if variables is None else variables)
        super().__init__(**values)

    def _kept(self) -> list[Any]:
        return self.variables


class TensorFlowKerasState(TensorFlowState):
    """A model of Keras and its optimizer, and plain objects.

    For example::

        state = TensorFlowKerasState(model, model.optimizer, epoch=0, batch=0)

    backend: of Keras in TensorFlow 1, for sessions; it has no effect.
    """

    def __init__(self, model: Any, optimizer: Any = None, backend: Any = None, **values: Any) -> None:
        del backend
        need_weights(model)
        self.model = model
        self.optimizer = optimizer if optimizer is not None else model.optimizer
        super().__init__([], **values)

    def _kept(self) -> list[Any]:
        return [*self.model.weights, *variables_of(self.optimizer, self.model)]


def run(function: Callable[..., Result]) -> Callable[..., Result]:
    """Like :func:`xoe.elastic.run`; errors that come out of TensorFlow's operations are understood, too."""

    @functools.wraps(function)
    def wrapper(*arguments: Any, **options: Any) -> Result:
        with typed_errors():
            return function(*arguments, **options)

    return _elastic.run(wrapper)
