"""``xoe.spark.estimator`` by Horovod's names."""

from xoe.spark.estimator import XoeEstimator as HorovodEstimator
from xoe.spark.estimator import XoeModel as HorovodModel

__all__ = ["HorovodEstimator", "HorovodModel"]
