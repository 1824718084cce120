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

from xoe._framework_names import *  # noqa: F403
from xoe.build_info import *  # noqa: F403
from xoe.errors import HostsUpdatedInterrupt as HostsUpdatedInterrupt
from xoe.objects import allgather_object as allgather_object
from xoe.objects import broadcast_object as broadcast_object
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

if typing.TYPE_CHECKING:
    from xoe.tensorflow.sync_batch_norm import SyncBatchNormalization as SyncBatchNormalization


def __getattr__(name: str) -> typing.Any:
    """What needs Keras is imported on first use."""
    if name == "SyncBatchNormalization":
        from xoe.tensorflow import sync_batch_norm

        return globals().setdefault(name, sync_batch_norm.SyncBatchNormalization)
    raise AttributeError(f"module 'xoe.tensorflow' has no attribute {name!r}")
