"""``xoe.spark.backend`` by Horovod's name."""

from xoe.spark.backend import Backend, SparkBackend
from xoe.spark.job import default_num_proc

__all__ = ["Backend", "SparkBackend", "default_num_proc"]
