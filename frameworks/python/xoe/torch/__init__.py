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

from xoe.build_info import ccl_built as ccl_built
from xoe.build_info import cuda_built as cuda_built
from xoe.build_info import ddl_built as ddl_built
from xoe.build_info import gloo_built as gloo_built
from xoe.build_info import gloo_enabled as gloo_enabled
from xoe.build_info import mpi_built as mpi_built
from xoe.build_info import mpi_enabled as mpi_enabled
from xoe.build_info import mpi_threads_supported as mpi_threads_supported
from xoe.build_info import nccl_built as nccl_built
from xoe.build_info import rocm_built as rocm_built
from xoe.errors import HorovodInternalError as HorovodInternalError
from xoe.errors import HostsUpdatedInterrupt as HostsUpdatedInterrupt
from xoe.errors import MismatchError as MismatchError
from xoe.errors import PeerLostError as PeerLostError
from xoe.errors import XoeError as XoeError
from xoe.initialize import init as init
from xoe.initialize import shutdown as shutdown
from xoe.objects import allgather_object as allgather_object
from xoe.objects import broadcast_object as broadcast_object
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
from xoe.torch.collectives import barrier as barrier
from xoe.torch.collectives import broadcast_async as broadcast_async
from xoe.torch.collectives import broadcast_async_ as broadcast_async_
from xoe.torch.collectives import grouped_allgather_async as grouped_allgather_async
from xoe.torch.collectives import grouped_allreduce_async as grouped_allreduce_async
from xoe.torch.collectives import grouped_allreduce_async_ as grouped_allreduce_async_
from xoe.torch.collectives import grouped_reducescatter_async as grouped_reducescatter_async
from xoe.torch.collectives import join as join
from xoe.torch.collectives import reducescatter_async as reducescatter_async
from xoe.torch.collectives import sparse_allreduce_async as sparse_allreduce_async
from xoe.torch.compression import Compression as Compression
from xoe.torch.handle import Handle as Handle
from xoe.torch.handle import poll as poll
from xoe.torch.handle import synchronize as synchronize
from xoe.torch.optimizer import DistributedOptimizer as DistributedOptimizer
from xoe.torch.sharded import ShardedOptimizer as ShardedOptimizer
from xoe.torch.sync_batch_norm import SyncBatchNorm as SyncBatchNorm
from xoe.world import cross_rank as cross_rank
from xoe.world import cross_size as cross_size
from xoe.world import is_initialized as is_initialized
from xoe.world import local_rank as local_rank
from xoe.world import local_size as local_size
from xoe.world import rank as rank
from xoe.world import size as size
from xoe.world import start_timeline as start_timeline
from xoe.world import stop_timeline as stop_timeline

# For `from xoe.torch import *`: the names imported above, of modules only elastic. Type checkers take `as` for the same.
if not typing.TYPE_CHECKING:
    __all__ = sorted(
        name for name, value in globals().items() if name[0] != "_" and (name == "elastic" or not inspect.ismodule(value))
    )
