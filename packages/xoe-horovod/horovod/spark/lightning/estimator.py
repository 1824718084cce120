"""``xoe.spark.lightning`` by Horovod's name."""

from xoe.spark.lightning import TorchEstimator, TorchModel

__all__ = ["TorchEstimator", "TorchModel"]
