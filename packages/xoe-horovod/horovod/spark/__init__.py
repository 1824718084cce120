"""``xoe.spark`` by Horovod's names."""

from horovod.spark.runner import run, run_elastic

__all__ = ["run", "run_elastic"]
