"""Xoe for JAX: collectives inside of ``jax.jit``, and optimizers of optax that average gradients::

    import xoe.jax as hvd

    hvd.init()
    optimizer = hvd.DistributedOptimizer(optax.adam(1e-3))
    params = hvd.broadcast_parameters(params)

    @jax.jit
    def step(params, state, batch):
        gradients = jax.grad(loss)(params, batch)
        updates, state = optimizer.update(gradients, state, params)
        return optax.apply_updates(params, updates), state

Start it with ``xoe run -np 4 python train.py``. All functions that communicate are collective: every rank of the process set
calls them, in the same order. docs/guide/jax.md tells more.
"""

from __future__ import annotations

import typing

from xoe._framework_names import *  # noqa: F403
from xoe.errors import HostsUpdatedInterrupt as HostsUpdatedInterrupt
from xoe.jax import elastic as elastic
from xoe.jax.collectives import allgather as allgather
from xoe.jax.collectives import allreduce as allreduce
from xoe.jax.collectives import alltoall as alltoall
from xoe.jax.collectives import barrier as barrier
from xoe.jax.collectives import broadcast as broadcast
from xoe.jax.collectives import reducescatter as reducescatter
from xoe.jax.failures import error_of as error_of
from xoe.jax.failures import typed_errors as typed_errors
from xoe.jax.initialize import initialize as initialize
from xoe.jax.objects import allgather_object as allgather_object
from xoe.jax.objects import broadcast_object as broadcast_object

if typing.TYPE_CHECKING:
    from xoe.jax.optimizer import DistributedOptimizer as DistributedOptimizer
    from xoe.jax.optimizer import ShardedOptimizer as ShardedOptimizer
    from xoe.jax.optimizer import broadcast_parameters as broadcast_parameters

_OF_OPTAX = ("DistributedOptimizer", "ShardedOptimizer", "broadcast_parameters")


def __getattr__(name: str) -> typing.Any:
    """Collectives work without optax."""
    if name in _OF_OPTAX:
        from xoe.jax import optimizer

        return globals().setdefault(name, getattr(optimizer, name))
    raise AttributeError(f"module 'xoe.jax' has no attribute {name!r}")
