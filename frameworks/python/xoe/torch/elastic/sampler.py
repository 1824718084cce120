"""A sampler that redistributes the rest of an epoch when the world changes."""

from __future__ import annotations

from collections.abc import Iterator, Sized
from typing import Any

import torch

from xoe import world as _world
from xoe.ledger import Ledger


class ElasticSampler(torch.utils.data.Sampler[int]):
    """Distributes the indices of a data set over all ranks, and the remaining ones again after the world has changed.

    Every index occurs once in an epoch, except that a few are repeated at its end so that all ranks have equally many. Put
    the sampler into the ``TorchState``, call :meth:`record_batch` after each batch and :meth:`set_epoch` after each epoch.

    dataset: of constant length. shuffle: in an order determined by ``seed`` and the epoch, the same on all ranks. ledger: is
    told of the indices of each batch by :meth:`record_batch`; put it into the state, too.
    """

    def __init__(self, dataset: Sized, shuffle: bool = True, seed: int = 0, ledger: Ledger | None = None) -> None:
        self.dataset = dataset
        self.shuffle = shuffle
        self.seed = seed
        self.ledger = ledger
        if ledger is not None:
            ledger.describe(len(dataset))
        self.epoch = 0
        self.processed_num = 0
        self.reset()

    def set_epoch(self, epoch: int) -> None:
        """Starts an epoch; to be called at the end of the previous one."""
        self.epoch = epoch
        self.processed_num = 0
        self.reset()

    def record_batch(self, batch_idx: int, batch_size: int) -> None:
        """Records that every rank has processed a batch of ``batch_size``."""
        del batch_idx
        self.processed_num += batch_size * self.num_replicas
        if self.ledger is not None:
            batch = self._mine[self._told : self._told + batch_size]
            self._told += batch_size
            left = -(-max(len(self._mine) - self._told, 0) // batch_size)
            self.ledger.step(batch, self.epoch, left)

    def reset(self) -> None:
        """Distributes the indices that are not processed yet over the current ranks."""
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
        self._mine: list[int] = []  # of this rank, in the loop under way
        self._told = 0  # so many of them, to the ledger

    def __iter__(self) -> Iterator[int]:
        indices = self.remaining_indices
        missing = self.num_samples * self.num_replicas - len(indices)
        if missing > 0:
            repeats = -(-missing // len(indices))
            indices = indices + (indices * repeats)[:missing]
        self._mine, self._told = indices[self.rank :: self.num_replicas], 0
        return iter(self._mine)

    def __len__(self) -> int:
        return self.num_samples

    def state_dict(self) -> dict[str, Any]:
        """The epoch, and the number of its indices that have been processed."""
        return {"epoch": self.epoch, "processed_num": self.processed_num}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores what :meth:`state_dict` returned."""
        self.epoch = state["epoch"]
        self.processed_num = state["processed_num"]
        self.reset()
