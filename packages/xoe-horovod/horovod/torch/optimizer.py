"""The optimizer of ``xoe.torch``."""

from xoe.torch import DistributedOptimizer

__all__ = ["DistributedOptimizer"]
