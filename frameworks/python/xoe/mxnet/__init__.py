"""Xoe for MXNet 1.9, with Horovod's names and meanings::

    import xoe.mxnet as hvd

    hvd.init()
    hvd.broadcast_parameters(net.collect_params(), root_rank=0)
    trainer = hvd.DistributedTrainer(net.collect_params(), "sgd", {"learning_rate": 0.01 * hvd.size()})

Start it with ``xoe run -np 4 python train.py``. MXNet is retired; this is for programs that still need it.
"""

from xoe._framework_names import *  # noqa: F403
from xoe.build_info import *  # noqa: F403
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
