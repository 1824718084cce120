"""The operations of ``xoe.tensorflow``."""

from xoe.tensorflow import *  # noqa: F403
