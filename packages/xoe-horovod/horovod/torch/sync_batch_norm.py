"""Batch normalisation of ``xoe.torch``."""

from xoe.torch import SyncBatchNorm as SyncBatchNorm
