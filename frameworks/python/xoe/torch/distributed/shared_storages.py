"""Tensors whose memory the ranks of a host share, so that the engine reduces them in place: the buckets of
DistributedDataParallel.

PyTorch cannot be told where to put a bucket. It can move one that it has made to a mapping of its own (``share_memory_()``),
which views of the bucket follow; pages of the engine's shared memory then take the place of those.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from dataclasses import dataclass
from typing import Any

import torch
import torch.multiprocessing
from torch.multiprocessing import reductions

from xoe import _core
from xoe.errors import XoeError

_SMALLEST = 256 << 10  # bytes: less is copied as fast
_REMEMBERED = 64
_weak: Any = reductions.StorageWeakRef
_strategy: Any = torch.multiprocessing.get_sharing_strategy
_SHM = "/dev/shm"  # where PyTorch makes its mapping, for a moment


@dataclass
class _Shared:
    storage: Any  # a StorageWeakRef
    tensor: torch.Tensor  # the same memory, where the engine knows it


class SharedStorages:
    """Of one process group. Any thread may call."""

    def __init__(self, engine: _core.Engine) -> None:
        self._engine: _core.Engine | None = engine if engine.topology()[3] > 1 else None  # None: no more are shared
        self._seen: dict[int, Any] = {}
        self._shared: dict[int, _Shared] = {}
        self._lock = threading.Lock()
        weakref.finalize(self, _end_sharing, self._shared)  # older versions of PyTorch do not shut groups down

    def find(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """The tensor where the engine can reduce it in place, or as it is if that cannot be. None: its memory is new here.

        tensor: contiguous, in host memory. What comes once, as activations do, is not worth the pages.
        """
        if tensor.nbytes < _SMALLEST or tensor.untyped_storage().nbytes() != tensor.nbytes:
            return None
        with self._lock:
            return self._find(tensor)

    def close(self) -> None:
        """Shares no more. Tensors stay where they are, in pages that no other process can write to."""
        with self._lock:
            self._engine = None
            self._seen.clear()
            _end_sharing(self._shared)

    def _find(self, tensor: torch.Tensor) -> torch.Tensor | None:
        address = tensor.data_ptr()
        shared = self._shared.get(address)
        if shared is not None and not shared.storage.expired():
            same = shared.tensor.dtype == tensor.dtype and shared.tensor.numel() == tensor.numel()
            return shared.tensor.view(tensor.shape) if same else tensor
        seen = self._seen.pop(address, None)
        if seen is not None and not seen.expired():
            self._share(tensor)
            shared = self._shared.get(address := tensor.data_ptr())
            if shared is not None:
                return shared.tensor.view(tensor.shape)
            self._seen[address] = seen
            return tensor
        if len(self._seen) >= _REMEMBERED:
            self._seen.clear()
        self._seen[address] = _weak(tensor.untyped_storage())
        return None

    def _share(self, tensor: torch.Tensor) -> None:
        """Where it cannot be done, that is so for the others too: they stay where they are."""
        # Buckets that DistributedDataParallel has replaced give their memory back.
        for address in [address for address, shared in self._shared.items() if shared.storage.expired()]:
            del self._shared[address]
        engine, self._engine = self._engine, None
        storage = tensor.untyped_storage()
        if engine is None or not _can_move(storage):
            return
        with contextlib.suppress(XoeError, RuntimeError):
            memory: Any = engine.shared_bytes(storage.nbytes())
            here = torch.frombuffer(memoryview(memory), dtype=tensor.dtype, count=tensor.numel())
            storage.share_memory_()
            _core.map_in_place(storage.data_ptr(), storage.nbytes(), here.data_ptr(), storage._share_fd_cpu_()[0])
            self._shared[storage.data_ptr()] = _Shared(_weak(storage), here)
            self._engine = engine


def _end_sharing(shared_by_address: dict[int, _Shared]) -> None:
    """Before the engine has its memory back."""
    for address, shared in shared_by_address.items():
        storage = torch.UntypedStorage._new_with_weak_ptr(shared.storage.cdata)
        if storage is not None:
            _core.map_privately(address, storage.nbytes())
    shared_by_address.clear()


def _can_move(storage: torch.UntypedStorage) -> bool:
    """Whether PyTorch can make a mapping of its own with room for all."""
    if storage.is_shared() or _strategy() != "file_descriptor":
        return False
    try:
        room = os.statvfs(_SHM)
    except OSError:
        return False
    return room.f_bavail * room.f_frsize > 2 * storage.nbytes()
