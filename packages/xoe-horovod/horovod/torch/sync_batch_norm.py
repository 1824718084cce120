"""Batch normalisation of ``xoe.torch``."""

from xoe.torch import SyncBatchNorm

__all__ = ["SyncBatchNorm"]
