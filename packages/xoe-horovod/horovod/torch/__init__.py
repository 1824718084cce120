"""``xoe.torch`` by Horovod's name."""

from xoe.torch import *  # noqa: F403
