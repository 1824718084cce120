"""``xoe.spark.lightning`` by Horovod's name."""

from horovod.spark.lightning.estimator import TorchEstimator, TorchModel

__all__ = ["TorchEstimator", "TorchModel"]
