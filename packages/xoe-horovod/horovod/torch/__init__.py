"""``xoe.torch`` by Horovod's name."""

from horovod.torch import compression, elastic, functions, mpi_ops, optimizer, sync_batch_norm  # noqa: F401
from xoe.torch import *  # noqa: F403
