"""The optimizer of ``xoe.torch``."""

from xoe.torch import DistributedOptimizer as DistributedOptimizer
