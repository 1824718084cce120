"""Compression of ``xoe.mxnet``."""

from xoe.mxnet import Compression

__all__ = ["Compression"]
