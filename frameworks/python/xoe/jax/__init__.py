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

from xoe.errors import HorovodInternalError as HorovodInternalError
from xoe.errors import HostsUpdatedInterrupt as HostsUpdatedInterrupt
from xoe.errors import MismatchError as MismatchError
from xoe.errors import PeerLostError as PeerLostError
from xoe.errors import XoeError as XoeError
from xoe.initialize import init as init
from xoe.initialize import shutdown as shutdown
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
from xoe.process_sets import ProcessSet as ProcessSet
from xoe.process_sets import add_process_set as add_process_set
from xoe.process_sets import global_process_set as global_process_set
from xoe.process_sets import remove_process_set as remove_process_set
from xoe.reduction import Adasum as Adasum
from xoe.reduction import Average as Average
from xoe.reduction import Max as Max
from xoe.reduction import Min as Min
from xoe.reduction import Product as Product
from xoe.reduction import ReduceOp as ReduceOp
from xoe.reduction import Sum as Sum
from xoe.topology import is_homogeneous as is_homogeneous
from xoe.world import cross_rank as cross_rank
from xoe.world import cross_size as cross_size
from xoe.world import is_initialized as is_initialized
from xoe.world import local_rank as local_rank
from xoe.world import local_size as local_size
from xoe.world import rank as rank
from xoe.world import size as size
from xoe.world import start_timeline as start_timeline
from xoe.world import stop_timeline as stop_timeline

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
