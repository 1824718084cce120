"""A sampler that deals what is left of an epoch again."""

from __future__ import annotations

from collections.abc import Iterator, Sized
from typing import Any

import torch

from xoe import world as _world


class ElasticSampler(torch.utils.data.Sampler[int]):
    """Deals the indices of a data set to all ranks, and, after the group has changed, those that are left.

    Every index is dealt once an epoch; a few come twice at its end, so that all ranks have equally many. Put it into the
    ``TorchState``, call :meth:`record_batch` after each batch and :meth:`set_epoch` at the end of each epoch.

    dataset: of constant length. shuffle: in an order that ``seed`` and the epoch give, the same on all ranks.
    """

    def __init__(self, dataset: Sized, shuffle: bool = True, seed: int = 0) -> None:
        self.dataset = dataset
        self.shuffle = shuffle
        self.seed = seed
        self.epoch = 0
        self.processed_num = 0
        self.reset()

    def set_epoch(self, epoch: int) -> None:
        """Begins an epoch with nothing processed; to be called at the end of the one before."""
        self.epoch = epoch
        self.processed_num = 0
        self.reset()

    def record_batch(self, batch_idx: int, batch_size: int) -> None:
        """A batch of ``batch_size`` has been processed, on every rank."""
        del batch_idx
        self.processed_num += batch_size * self.num_replicas

    def reset(self) -> None:
        """Deals what is not yet processed to the ranks that there are now."""
        self.num_replicas = _world.size()
        self.rank = _world.rank()
        length = len(self.dataset)
        if self.shuffle:
            generator = torch.Generator().manual_seed(self.seed + self.epoch)
            order = torch.randperm(length, generator=generator).tolist()
        else:
            order = list(range(length))
        self.remaining_indices = order[min(self.processed_num, length) :]
        self.num_samples = -(-len(self.remaining_indices) // self.num_replicas)

    def __iter__(self) -> Iterator[int]:
        dealt = self.remaining_indices
        missing = self.num_samples * self.num_replicas - len(dealt)
        if missing > 0:
            repeats = -(-missing // len(dealt))
            dealt = dealt + (dealt * repeats)[:missing]
        return iter(dealt[self.rank :: self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def state_dict(self) -> dict[str, Any]:
        """The epoch, and how many indices of it have been processed."""
        return {"epoch": self.epoch, "processed_num": self.processed_num}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of :meth:`state_dict`."""
        self.epoch = state["epoch"]
        self.processed_num = state["processed_num"]
        self.reset()
