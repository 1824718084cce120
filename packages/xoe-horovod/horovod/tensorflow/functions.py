"""Broadcasts of ``xoe.tensorflow``."""

from xoe.tensorflow import allgather_object, broadcast, broadcast_global_variables, broadcast_object, broadcast_variables

__all__ = ["allgather_object", "broadcast", "broadcast_global_variables", "broadcast_object", "broadcast_variables"]
