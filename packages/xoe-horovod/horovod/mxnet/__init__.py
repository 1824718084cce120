"""``xoe.mxnet`` by Horovod's name."""

from horovod.mxnet import compression, functions, mpi_ops  # noqa: F401
from xoe.mxnet import *  # noqa: F403
