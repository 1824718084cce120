"""Helpers of ``horovod.common.util`` that programs import."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import xoe.build_info as _build
from xoe._temporary_variables import variables

EXTENSIONS = ["torch", "tensorflow", "mxnet"]


def _cache(function: Callable[..., Any]) -> Callable[..., Any]:
    """Remembers results by the arguments."""
    return functools.lru_cache(maxsize=None)(function)


def extension_available(ext_base_name: str, verbose: bool = False) -> bool:
    """Whether ``horovod.torch`` (or another framework) can be used."""
    del verbose
    return ext_base_name in EXTENSIONS


def check_extension(ext_name: str, ext_env_var: str, pkg_path: str, *args: str) -> None:
    """Raises ImportError for a framework that Xoe has no binding for."""
    del ext_env_var, pkg_path, args
    if not extension_available(ext_name.rpartition(".")[2]):
        raise ImportError(f"{ext_name} is not supported: xoe-horovod has torch, tensorflow, keras and mxnet")


def gpu_available(ext_base_name: str, verbose: bool = False) -> bool:
    """Whether PyTorch sees a GPU."""
    if not extension_available(ext_base_name, verbose):
        return False
    import torch

    return torch.cuda.is_available()


def mpi_built(verbose: bool = False) -> bool:
    """Whether the MPI backend is installed."""
    del verbose
    return _build.mpi_built()


def gloo_built(verbose: bool = False) -> bool:
    """Whether the Gloo backend is installed."""
    del verbose
    return _build.gloo_built()


def nccl_built(verbose: bool = False) -> int:
    """The newest version of NCCL that the backend knows; 0 where it is not installed."""
    del verbose
    return _build.nccl_built()


def cuda_built(verbose: bool = False) -> bool:
    """Whether CUDA tensors are accepted."""
    del verbose
    return _build.cuda_built()


def rocm_built(verbose: bool = False) -> bool:
    """False."""
    del verbose
    return _build.rocm_built()


def ddl_built(verbose: bool = False) -> bool:
    """False."""
    del verbose
    return _build.ddl_built()


def ccl_built(verbose: bool = False) -> bool:
    """False."""
    del verbose
    return _build.ccl_built()


def env(**kwargs: str | None) -> AbstractContextManager[None]:
    """Sets environment variables within the context. None leaves one alone."""
    return variables({name: value for name, value in kwargs.items() if value is not None})


def num_rank_is_power_2(num_rank: int) -> bool:
    """Whether the number is a power of two."""
    return num_rank.bit_count() == 1


def split_list(l: Sequence[Any], n: int) -> list[Sequence[Any]]:  # noqa: E741 (Horovod's name)
    """Cuts the list into ``n`` parts whose lengths differ by one at most."""
    ends = [len(l) // n * part + min(part, len(l) % n) for part in range(n + 1)]
    return [l[begin:end] for begin, end in itertools.pairwise(ends)]


def is_iterable(x: Any) -> bool:
    """Whether ``iter(x)`` works."""
    try:
        iter(x)
    except TypeError:
        return False
    return True


def is_version_greater_equal_than(ver: str, target: str) -> bool:
    """Whether ``ver`` is at least ``target``, which is written as major.minor.patch."""
    if not isinstance(ver, str) or not isinstance(target, str):
        raise ValueError(f"versions are strings, not {ver!r} and {target!r}")
    if not re.fullmatch(r"\d+\.\d+\.\d+", target):
        raise ValueError(f"the target version is {target!r}; write major.minor.patch")
    numbers = [int(number) for number in re.findall(r"\d+", ver.partition("+")[0])[:3]]
    return tuple(numbers + [0] * (3 - len(numbers))) >= tuple(map(int, target.split(".")))
