"""The rank of this process before ``init()``."""

from __future__ import annotations

import os

_LAUNCHERS = (
    ("XOE_RANK", "XOE_SIZE"),
    ("HOROVOD_RANK", "HOROVOD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
)


def get_env_rank_and_size() -> tuple[int, int]:
    """Rank and size from the launcher's environment; (0, 1) without one."""
    for names in _LAUNCHERS:
        rank, size = map(os.environ.get, names)
        if rank is not None and size is not None:
            return int(rank), int(size)
        if rank is not None or size is not None:
            raise RuntimeError(f"only one of {' and '.join(names)} is set")
    return 0, 1
