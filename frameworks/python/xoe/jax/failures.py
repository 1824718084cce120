"""Errors of collectives in compiled programs. JAX raises them as ``jax.errors.JaxRuntimeError`` where a result is waited
for."""

from __future__ import annotations

from contextlib import AbstractContextManager

import jax
from jax._src import dispatch as _dispatch

from xoe import _failures
from xoe._failures import error_of as error_of


def typed_errors() -> AbstractContextManager[None]:
    """Raises errors of collectives as Xoe's own, PeerLostError for example.

    Around the place where results are waited for::

        with hvd.typed_errors():
            params = jax.block_until_ready(step(params))
    """
    return _failures.typed(jax.errors.JaxRuntimeError, forget_failures)


def forget_failures() -> None:
    """The programs of this process wait for what communicated before them: also where that failed, and would fail them."""
    _dispatch.runtime_tokens.clear()
