"""Helpers of ``horovod.tensorflow.util`` that programs import."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf


def _executing_eagerly() -> bool:
    """Whether operations run at once."""
    return bool(tf.executing_eagerly())


def _make_subgraph(f: Callable[..., Any]) -> Any:
    """The function as a graph."""
    return tf.function(f)


def _cache(f: Callable[..., Any]) -> Callable[..., Any]:
    """Remembers results by the arguments."""
    return functools.lru_cache(maxsize=None)(f)


def vars_to_refs(vars: Iterable[Any]) -> Any:
    """Hashable references of variables."""
    return tuple(v.ref() for v in vars)


def refs_to_vars(refs: Iterable[Any]) -> Any:
    """The inverse of :func:`vars_to_refs`."""
    return [r.deref() for r in refs]
