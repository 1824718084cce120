"""Compression of ``xoe.mxnet``."""

from xoe.mxnet import Compression as Compression
