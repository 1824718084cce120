"""Elastic training with JAX: see :mod:`xoe.elastic`.

::

    state = hvd.elastic.JaxState(params=params, opt_state=opt_state, step=0)

    @hvd.elastic.run
    def train(state):
        while state.step < 1000:
            state.params, state.opt_state = step(state.params, state.opt_state)
            state.step += 1
            if state.step % 100 == 0:
                state.commit()
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import jax

from xoe import elastic as _elastic
from xoe.elastic import ObjectState as ObjectState
from xoe.elastic import State as State
from xoe.errors import UnsupportedError
from xoe.jax.failures import forget_failures, typed_errors
from xoe.ledger import Ledger as Ledger

Result = TypeVar("Result")


def _states(values: Any) -> list[Any]:
    """Leaves, and states of sharded optimizers as a whole; optax need not be there."""
    return list(jax.tree.leaves(values, is_leaf=lambda one: type(one).__name__ == "ShardedState"))


class JaxState(ObjectState):
    """Trees of arrays, plain objects, and data sets and ledgers, one attribute per keyword."""

    def __init__(self, **values: Any) -> None:
        if any(type(one).__name__ == "ShardedState" for one in _states(values)):
            raise UnsupportedError("a ShardedOptimizer's state cannot be elastic: the part of a rank that dies is lost")
        super().__init__(**values)

    def reset(self) -> None:
        """Compiled programs know the ranks of the world that they were made in."""
        forget_failures()
        jax.clear_caches()
        super().reset()

    def save(self) -> None:
        """Saves a copy in memory, once all that was computed has succeeded."""
        with typed_errors():
            jax.block_until_ready([getattr(self, name) for name in self._saved])
            jax.effects_barrier()
        super().save()


def run(function: Callable[..., Result]) -> Callable[..., Result]:
    """Like :func:`xoe.elastic.run`; errors that come out of compiled programs are understood, too."""

    @functools.wraps(function)
    def wrapper(*arguments: Any, **options: Any) -> Result:
        with typed_errors():
            result = function(*arguments, **options)
            jax.effects_barrier()
            return result

    return _elastic.run(wrapper)
