"""``xoe.tensorflow`` by Horovod's name."""

import importlib
from typing import Any

import xoe.tensorflow as _xoe
from horovod.tensorflow import compression, elastic, functions, mpi_ops, util  # noqa: F401
from horovod.tensorflow.functions import broadcast_object_fn  # noqa: F401
from horovod.tensorflow.util import _executing_eagerly  # noqa: F401
from xoe.tensorflow import *  # noqa: F403


def __getattr__(name: str) -> Any:
    if name == "keras":  # not before it is asked for: it imports Keras
        return importlib.import_module("horovod.tensorflow.keras")
    return getattr(_xoe, name)
