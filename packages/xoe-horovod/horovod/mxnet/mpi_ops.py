"""The operations of ``xoe.mxnet``."""

from xoe.mxnet import *  # noqa: F403
