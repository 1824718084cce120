"""Elastic training with torch.distributed, DistributedDataParallel and Lightning: see :mod:`xoe.elastic`.

::

    from xoe.torch.distributed import elastic

    @elastic.run
    def train(state):
        torch.distributed.init_process_group("xoe")
        model = torch.nn.parallel.DistributedDataParallel(state.model)
        while state.step < 1000:
            ...
            state.step += 1
            state.commit()

    train(TorchState(model=model, optimizer=optimizer, step=0))
"""

from __future__ import annotations

import functools
import gc
import os
from collections.abc import Callable
from typing import Any, TypeVar

import torch.distributed as dist

from xoe import world as _world
from xoe.elastic import State, run_fn
from xoe.errors import HorovodInternalError, HostsUpdatedInterrupt
from xoe.initialize import init, re_form
from xoe.torch.distributed.group import first_error

Result = TypeVar("Result")


def run(function: Callable[..., Result]) -> Callable[..., Result]:
    """Like :func:`xoe.elastic.run`, for a function that makes its process groups of the backend xoe itself.

    Where one of them breaks, all are destroyed, the ranks form a new version of the world, and the function is called again;
    the variables RANK, WORLD_SIZE, LOCAL_RANK and their like then say what is true in it. Errors that come out of PyTorch's C++
    as RuntimeError are understood, too.
    """

    @functools.wraps(function)
    def typed(*arguments: Any, **options: Any) -> Result:
        try:
            return function(*arguments, **options)
        except (HorovodInternalError, HostsUpdatedInterrupt):
            raise
        except Exception as error:
            own = first_error()
            if own is None:
                raise
            raise own from error

    elastic = run_fn(typed, _reset)

    @functools.wraps(function)
    def wrapper(state: State, *arguments: Any, **options: Any) -> Result:
        init()
        _say_ranks()
        return elastic(state, *arguments, **options)

    return wrapper


def _reset() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()
    gc.collect()  # DistributedDataParallel's hooks on the parameters go with it
    re_form()
    _say_ranks()


def _say_ranks() -> None:
    """Torchrun's variables, which programs read."""
    at = _world.current()
    numbers = {
        "RANK": at.rank,
        "WORLD_SIZE": at.size,
        "LOCAL_RANK": at.local_rank,
        "LOCAL_WORLD_SIZE": at.local_size,
        "GROUP_RANK": at.cross_rank,
        "GROUP_WORLD_SIZE": at.cross_size,
    }
    os.environ.update({name: str(number) for name, number in numbers.items()})
