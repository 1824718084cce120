"""Ranks and sizes as operations of a graph, which look when they run: a saved graph may run in another world."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from xoe import world as _world
from xoe.process_sets import ProcessSet


def _operation(look: Callable[[], int], name: str | None) -> Any:
    result = tf.numpy_function(lambda: np.int32(look()), [], tf.int32, name=name)
    result.set_shape([])
    return result


def rank_op(name: str | None = None) -> Any:
    """This process's rank, as an int32."""
    return _operation(_world.rank, name)


def local_rank_op(name: str | None = None) -> Any:
    """This rank's number on its host, as an int32."""
    return _operation(_world.local_rank, name)


def local_size_op(name: str | None = None) -> Any:
    """The number of ranks on this host, as an int32."""
    return _operation(_world.local_size, name)


def size_op(process_set_id: int = 0, name: str | None = None) -> Any:
    """The number of ranks of a process set, as an int32."""
    return _operation(lambda: len(_world.current().engine.process_set_ranks(process_set_id)), name)


def size_of(process_set: ProcessSet, dtype: Any) -> Any:
    """The number of ranks of a process set. Where it may change, a function that was traced looks when it runs."""
    traced = _world.may_change() and not tf.executing_eagerly()
    return tf.cast(size_op(process_set._need()) if traced else process_set.size(), dtype)


def process_set_included_op(process_set_id: int = 0, name: str | None = None) -> Any:
    """1: this rank is in the process set; 0: it is not, as an int32."""
    return _operation(lambda: _world.rank() in _world.current().engine.process_set_ranks(process_set_id), name)
