"""States of ``xoe.elastic``."""

from xoe.elastic import ObjectState, State, run_fn

__all__ = ["ObjectState", "State", "run_fn"]
