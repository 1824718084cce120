"""A communication hook for DistributedDataParallel."""

# No annotations as text here: DistributedDataParallel compares them with its classes.
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import GradBucket

from xoe.torch.distributed.group import Group
from xoe.torch.distributed.untraced import untraced


@untraced
def allreduce_hook(state: dist.ProcessGroup | None, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Averages a bucket of gradients in place, in one pass of the engine::

        model.register_comm_hook(None, xoe.torch.distributed.allreduce_hook)

    state: the process group, of the backend xoe; None: the default one.
    """
    group = dist.group.WORLD if state is None else state
    if not isinstance(group, Group):
        raise TypeError(f"allreduce_hook needs a process group of the backend xoe, not {type(group).__name__}")
    buffer = bucket.buffer()
    future: torch.futures.Future[Any] = group.average(buffer).get_future()
    return future.then(_first)


def _first(future: torch.futures.Future[Any]) -> torch.Tensor:
    tensor: torch.Tensor = future.value()[0]
    return tensor
