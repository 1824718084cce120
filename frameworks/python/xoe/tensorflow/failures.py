"""Errors of collectives. TensorFlow raises them as ``tf.errors.UnavailableError``, ``InvalidArgumentError`` and others of
its own."""

from __future__ import annotations

from contextlib import AbstractContextManager

import tensorflow as tf

from xoe import _failures
from xoe._failures import error_of as error_of


def typed_errors() -> AbstractContextManager[None]:
    """Raises errors of collectives as Xoe's own, PeerLostError for example.

    Around the place where results are waited for::

        with hvd.typed_errors():
            step(batch)
    """
    return _failures.typed(tf.errors.OpError)
