"""Compression of ``xoe.torch``."""

from xoe.torch import Compression

__all__ = ["Compression"]
