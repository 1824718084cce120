"""Elastic training with TensorFlow: see :mod:`xoe.elastic`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from xoe import elastic as _elastic
from xoe._variables_state import VariablesState
from xoe.elastic import ObjectState as ObjectState
from xoe.elastic import State as State
from xoe.tensorflow.failures import typed_errors

Result = TypeVar("Result")


class TensorFlowState(VariablesState):
    """Variables, and plain objects, one attribute per keyword."""

    def __init__(self, variables: Sequence[Any] | None = None, **values: Any) -> None:
        self._variables = list(variables or ())
        super().__init__(**values)

    def _kept(self) -> list[Any]:
        return self._variables


class TensorFlowKerasState(TensorFlowState):
    """A model of Keras and its optimizer, and plain objects.

    For example::

        state = TensorFlowKerasState(model, model.optimizer, epoch=0, batch=0)
    """

    def __init__(self, model: Any, optimizer: Any = None, **values: Any) -> None:
        self.model = model
        self.optimizer = optimizer if optimizer is not None else model.optimizer
        super().__init__(None, **values)

    def _kept(self) -> list[Any]:
        optimizer = self.optimizer.variables
        return [*self.model.weights, *(optimizer() if callable(optimizer) else optimizer)]


def run(function: Callable[..., Result]) -> Callable[..., Result]:
    """Like :func:`xoe.elastic.run`; errors that come out of TensorFlow's operations are understood, too."""

    @functools.wraps(function)
    def wrapper(*arguments: Any, **options: Any) -> Result:
        with typed_errors():
            return function(*arguments, **options)

    return _elastic.run(wrapper)
