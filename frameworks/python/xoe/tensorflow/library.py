"""libxoe_tensorflow.so, which TensorFlow loads: its operations, its calls of XLA, and what Python looks at when they run."""

from __future__ import annotations

import ctypes
import functools
import pathlib
import threading
from collections.abc import Callable
from typing import Any

import tensorflow as tf

import xoe
from xoe import _core
from xoe.errors import UnsupportedError
from xoe.first_step import Observed, observe

_loading = threading.RLock()
_numbering = threading.Lock()
_looks: list[Callable[[Observed], bool]] = []  # by their number, from 1 on


def number_of(look: Callable[[Observed], bool]) -> int:
    """The number under which an operation or a call shows its tensors to ``look``, which returns whether it need not look again
    in this world."""
    with _numbering:
        _looks.append(look)
        return len(_looks)


def _on_observed(number: int, observed: Observed) -> bool:
    known = 0 < number <= len(_looks)  # the graph may be one that another process has made
    return _looks[number - 1](observed) if known else True


@functools.cache
def _load() -> tuple[Any, Any]:
    """TensorFlow's module of operations, and the library for ctypes."""
    path = pathlib.Path(xoe.__file__).with_name("lib") / "libxoe_tensorflow.so"
    module = tf.load_op_library(str(path))
    library = ctypes.PyDLL(str(path))
    _connect(library.xoe_tensorflow_connect, "does not take Xoe's operations")
    observe(library, "xoe_tensorflow", _on_observed)
    return module, library


def _connect(function: Any, refusal: str, *more: Any) -> None:
    function.restype = ctypes.c_char_p
    failure = function(ctypes.c_void_p(_core.engine_access()), *more)
    if failure:
        raise UnsupportedError(f"TensorFlow {tf.__version__} {refusal}: {failure.decode()}")


def operations() -> Any:
    """The module that has the operations. Raises UnsupportedError where TensorFlow does not take them."""
    with _loading:
        return _load()[0]


@functools.cache
def _connect_xla() -> None:
    refusal = "cannot compile collectives (leave jit_compile=True out, or pass jit_compile=False to Keras's compile())"
    library = pathlib.Path(tf.__file__).with_name("libtensorflow_cc.so.2")
    _connect(_load()[1].xoe_tensorflow_connect_xla, refusal, ctypes.c_char_p(str(library).encode()))


def connect_xla() -> None:
    """Lets programs that XLA compiles make calls. Raises UnsupportedError, which names the option, where they cannot."""
    with _loading:
        _connect_xla()
