"""Xoe for Keras 3, on its TensorFlow, JAX and PyTorch backends, with Horovod's names and meanings::

    import xoe.keras as hvd

    hvd.init()
    model.compile(optimizer=hvd.DistributedOptimizer(keras.optimizers.Adam(1e-3 * hvd.size())), loss="mse")
    model.fit(dataset, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()],
              verbose=2 if hvd.rank() == 0 else 0)

Start it with ``xoe run -np 4 python train.py``. All functions that communicate are collective: every rank of the process set
calls them. docs/guide/keras.md tells more.
"""

from xoe._framework_names import *  # noqa: F403
from xoe.errors import HostsUpdatedInterrupt as HostsUpdatedInterrupt
from xoe.keras import callbacks as callbacks
from xoe.keras import distribution as distribution
from xoe.keras import elastic as elastic
from xoe.keras.arrays import allgather as allgather
from xoe.keras.arrays import allgather_object as allgather_object
from xoe.keras.arrays import allreduce as allreduce
from xoe.keras.arrays import broadcast as broadcast
from xoe.keras.arrays import broadcast_object as broadcast_object
from xoe.keras.compression import Compression as Compression
from xoe.keras.models import load_model as load_model
from xoe.keras.optimizer import DistributedOptimizer as DistributedOptimizer
from xoe.keras.optimizer import PartialDistributedOptimizer as PartialDistributedOptimizer
