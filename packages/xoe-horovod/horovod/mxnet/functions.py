"""Collectives of objects."""

from xoe.mxnet import allgather_object, broadcast_object

__all__ = ["allgather_object", "broadcast_object"]
