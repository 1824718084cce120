"""``xoe.torch.elastic`` by Horovod's name."""

from xoe.torch.elastic import *  # noqa: F403
