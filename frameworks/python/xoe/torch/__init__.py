"""Xoe for PyTorch, with Horovod's names and meanings::

    import xoe.torch as hvd

    hvd.init()
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)

Start it with ``xoe run -np 4 python train.py``. All functions that communicate are collective: every rank of the process set
calls them. docs/guide/pytorch.md and docs/guide/from-horovod.md tell more.
"""

import inspect
import typing

from xoe._collective import barrier as barrier
from xoe._collective import join as join
from xoe._framework_names import *  # noqa: F403
from xoe.build_info import *  # noqa: F403
from xoe.errors import HostsUpdatedInterrupt as HostsUpdatedInterrupt
from xoe.objects import allgather_object as allgather_object
from xoe.objects import broadcast_object as broadcast_object
from xoe.torch import elastic as elastic
from xoe.torch.blocking import allgather as allgather
from xoe.torch.blocking import allreduce as allreduce
from xoe.torch.blocking import allreduce_ as allreduce_
from xoe.torch.blocking import alltoall as alltoall
from xoe.torch.blocking import broadcast as broadcast
from xoe.torch.blocking import broadcast_ as broadcast_
from xoe.torch.blocking import grouped_allgather as grouped_allgather
from xoe.torch.blocking import grouped_allreduce as grouped_allreduce
from xoe.torch.blocking import grouped_allreduce_ as grouped_allreduce_
from xoe.torch.blocking import grouped_reducescatter as grouped_reducescatter
from xoe.torch.blocking import reducescatter as reducescatter
from xoe.torch.broadcasting import broadcast_optimizer_state as broadcast_optimizer_state
from xoe.torch.broadcasting import broadcast_parameters as broadcast_parameters
from xoe.torch.collectives import allgather_async as allgather_async
from xoe.torch.collectives import allreduce_async as allreduce_async
from xoe.torch.collectives import allreduce_async_ as allreduce_async_
from xoe.torch.collectives import alltoall_async as alltoall_async
from xoe.torch.collectives import broadcast_async as broadcast_async
from xoe.torch.collectives import broadcast_async_ as broadcast_async_
from xoe.torch.collectives import grouped_allgather_async as grouped_allgather_async
from xoe.torch.collectives import grouped_allreduce_async as grouped_allreduce_async
from xoe.torch.collectives import grouped_allreduce_async_ as grouped_allreduce_async_
from xoe.torch.collectives import grouped_reducescatter_async as grouped_reducescatter_async
from xoe.torch.collectives import reducescatter_async as reducescatter_async
from xoe.torch.collectives import sparse_allreduce_async as sparse_allreduce_async
from xoe.torch.compression import Compression as Compression
from xoe.torch.handle import Handle as Handle
from xoe.torch.handle import poll as poll
from xoe.torch.handle import synchronize as synchronize
from xoe.torch.logical_shards import LogicalShards as LogicalShards
from xoe.torch.optimizer import DistributedOptimizer as DistributedOptimizer
from xoe.torch.sharded import ShardedOptimizer as ShardedOptimizer
from xoe.torch.sync_batch_norm import SyncBatchNorm as SyncBatchNorm

# For `from xoe.torch import *`: the names imported above, of modules only elastic. Type checkers take `as` for the same.
if not typing.TYPE_CHECKING:
    __all__ = sorted(
        name for name, value in globals().items() if name[0] != "_" and (name == "elastic" or not inspect.ismodule(value))
    )
