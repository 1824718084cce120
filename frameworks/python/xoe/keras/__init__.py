"""Xoe for Keras 3, on its TensorFlow, JAX and PyTorch backends, with Horovod's names and meanings::

    import xoe.keras as hvd

    hvd.init()
    model.compile(optimizer=hvd.DistributedOptimizer(keras.optimizers.Adam(1e-3 * hvd.size())), loss="mse")
    model.fit(dataset, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()],
              verbose=2 if hvd.rank() == 0 else 0)

Start it with ``xoe run -np 4 python train.py``. All functions that communicate are collective: every rank of the process set
calls them. docs/guide/keras.md tells more.
"""

from xoe.errors import HorovodInternalError as HorovodInternalError
from xoe.errors import HostsUpdatedInterrupt as HostsUpdatedInterrupt
from xoe.errors import MismatchError as MismatchError
from xoe.errors import PeerLostError as PeerLostError
from xoe.errors import XoeError as XoeError
from xoe.initialize import init as init
from xoe.initialize import shutdown as shutdown
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
