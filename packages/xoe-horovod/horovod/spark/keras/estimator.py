"""``xoe.spark.keras`` by Horovod's name."""

from xoe.spark.keras import KerasEstimator, KerasModel

__all__ = ["KerasEstimator", "KerasModel"]
