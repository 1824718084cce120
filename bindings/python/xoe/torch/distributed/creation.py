"""The backend's factory, which torch.distributed calls for a new group."""

from __future__ import annotations

from typing import Any

from xoe.process_sets import global_process_set
from xoe.torch.distributed import subgroups
from xoe.torch.distributed.group import Group
from xoe.torch.distributed.initialize import initialize_engine


def create(options: Any, backend_options: Any = None) -> Group:
    """Creates a group; ``options`` are PyTorch's ``_DistributedBackendOptions``."""
    del backend_options
    ranks = list(options.global_ranks_in_group)
    if ranks:
        return Group(options, subgroups.take(str(options.group_id), ranks), owns_world=False)
    started = initialize_engine(options.store, options.group_rank, options.group_size, options.timeout)
    return Group(options, global_process_set, owns_world=started)
