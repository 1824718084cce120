"""States of ``xoe.elastic``."""

from xoe.elastic import ObjectState, State

__all__ = ["ObjectState", "State"]
