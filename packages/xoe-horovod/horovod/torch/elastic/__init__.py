"""``xoe.torch.elastic`` by Horovod's name."""

from horovod.torch.elastic import sampler, state  # noqa: F401
from xoe.torch.elastic import *  # noqa: F403
