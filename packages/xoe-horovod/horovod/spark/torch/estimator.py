"""``xoe.spark.torch`` by Horovod's name."""

from xoe.spark.torch import TorchEstimator, TorchModel

__all__ = ["TorchEstimator", "TorchModel"]
