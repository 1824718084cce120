"""Xoe for MXNet 1.9, with Horovod's names and meanings::

    import xoe.mxnet as hvd

    hvd.init()
    hvd.broadcast_parameters(net.collect_params(), root_rank=0)
    trainer = hvd.DistributedTrainer(net.collect_params(), "sgd", {"learning_rate": 0.01 * hvd.size()})

Start it with ``xoe run -np 4 python train.py``. MXNet is retired; this is for programs that still need it.
"""

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
from xoe.errors import MismatchError as MismatchError
from xoe.errors import PeerLostError as PeerLostError
from xoe.errors import XoeError as XoeError
from xoe.initialize import init as init
from xoe.initialize import shutdown as shutdown
from xoe.mxnet.collectives import allgather as allgather
from xoe.mxnet.collectives import allreduce as allreduce
from xoe.mxnet.collectives import allreduce_ as allreduce_
from xoe.mxnet.collectives import alltoall as alltoall
from xoe.mxnet.collectives import broadcast as broadcast
from xoe.mxnet.collectives import broadcast_ as broadcast_
from xoe.mxnet.collectives import grouped_allgather as grouped_allgather
from xoe.mxnet.collectives import grouped_allreduce as grouped_allreduce
from xoe.mxnet.collectives import grouped_allreduce_ as grouped_allreduce_
from xoe.mxnet.collectives import grouped_reducescatter as grouped_reducescatter
from xoe.mxnet.collectives import reducescatter as reducescatter
from xoe.mxnet.training import Compression as Compression
from xoe.mxnet.training import DistributedOptimizer as DistributedOptimizer
from xoe.mxnet.training import DistributedTrainer as DistributedTrainer
from xoe.mxnet.training import broadcast_parameters as broadcast_parameters
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
from xoe.world import cross_rank as cross_rank
from xoe.world import cross_size as cross_size
from xoe.world import is_initialized as is_initialized
from xoe.world import local_rank as local_rank
from xoe.world import local_size as local_size
from xoe.world import rank as rank
from xoe.world import size as size
from xoe.world import start_timeline as start_timeline
from xoe.world import stop_timeline as stop_timeline
