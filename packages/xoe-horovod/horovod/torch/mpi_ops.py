"""The operations of ``xoe.torch``."""

from xoe.torch import *  # noqa: F403
