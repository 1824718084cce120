"""Xoe for TensorFlow, with Horovod's names and meanings::

    import xoe.tensorflow as hvd

    hvd.init()

    @tf.function
    def step(images, labels):
        with tf.GradientTape() as tape:
            loss = loss_of(model(images, training=True), labels)
        tape = hvd.DistributedGradientTape(tape)
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))

    hvd.broadcast_variables(model.variables, root_rank=0)

Start it with ``xoe run -np 4 python train.py``. All functions that communicate are collective: every rank of the process set
calls them. docs/guide/tensorflow.md tells more.
"""

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
from xoe.tensorflow import elastic as elastic
from xoe.tensorflow.collectives import allgather as allgather
from xoe.tensorflow.collectives import allreduce as allreduce
from xoe.tensorflow.collectives import alltoall as alltoall
from xoe.tensorflow.collectives import barrier as barrier
from xoe.tensorflow.collectives import broadcast as broadcast
from xoe.tensorflow.collectives import broadcast_ as broadcast_
from xoe.tensorflow.collectives import broadcast_variables as broadcast_variables
from xoe.tensorflow.collectives import grouped_allgather as grouped_allgather
from xoe.tensorflow.collectives import grouped_allreduce as grouped_allreduce
from xoe.tensorflow.collectives import grouped_reducescatter as grouped_reducescatter
from xoe.tensorflow.collectives import join as join
from xoe.tensorflow.collectives import reducescatter as reducescatter
from xoe.tensorflow.compression import Compression as Compression
from xoe.tensorflow.failures import error_of as error_of
from xoe.tensorflow.failures import typed_errors as typed_errors
from xoe.tensorflow.optimizer import BroadcastGlobalVariablesHook as BroadcastGlobalVariablesHook
from xoe.tensorflow.optimizer import DistributedOptimizer as DistributedOptimizer
from xoe.tensorflow.optimizer import broadcast_global_variables as broadcast_global_variables
from xoe.tensorflow.tape import DistributedGradientTape as DistributedGradientTape
from xoe.tensorflow.tape import PartialDistributedGradientTape as PartialDistributedGradientTape
from xoe.tensorflow.topology import local_rank_op as local_rank_op
from xoe.tensorflow.topology import local_size_op as local_size_op
from xoe.tensorflow.topology import process_set_included_op as process_set_included_op
from xoe.tensorflow.topology import rank_op as rank_op
from xoe.tensorflow.topology import size_op as size_op
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
    from xoe.tensorflow.sync_batch_norm import SyncBatchNormalization as SyncBatchNormalization


def __getattr__(name: str) -> typing.Any:
    """What needs Keras is imported on first use."""
    if name == "SyncBatchNormalization":
        from xoe.tensorflow import sync_batch_norm

        return globals().setdefault(name, sync_batch_norm.SyncBatchNormalization)
    raise AttributeError(f"module 'xoe.tensorflow' has no attribute {name!r}")
