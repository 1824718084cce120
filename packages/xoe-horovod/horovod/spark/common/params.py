"""``xoe.spark.params`` by Horovod's name."""

from xoe.spark.params import EstimatorParams, ModelParams

__all__ = ["EstimatorParams", "ModelParams"]
