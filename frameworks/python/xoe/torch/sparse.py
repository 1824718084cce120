"""Sparse COO tensors as the engine accepts them: one index for each entry, and its values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from xoe.errors import InvalidArgumentError
from xoe.torch.tensors import need_tensors, of_array, to_engine


class SparseSum:
    """The entries of a rank's tensor, and the sum of all ranks'."""

    def __init__(self, tensor: torch.Tensor) -> None:
        need_tensors([tensor])
        if tensor.layout is not torch.sparse_coo:
            raise InvalidArgumentError(
                f"layout {tensor.layout} is not supported; pass a sparse COO tensor, or use allreduce_async"
            )
        tensor = tensor.detach().coalesce()
        self.shape = tensor.shape
        self._dims = tensor.sparse_dim()
        self._values = tensor.values()
        # The engine has one index per entry: indices of all sparse dimensions are flattened.
        self._flat = torch.zeros(tensor.indices().shape[1], dtype=torch.int64, device=tensor.device)
        for dim in range(self._dims):
            self._flat = self._flat * self.shape[dim] + tensor.indices()[dim]
        self.parts = [to_engine(self._flat), to_engine(self._values, "sum")]

    def result(self, outputs: Sequence[Any]) -> torch.Tensor:
        """The sum, coalesced, from the indices and values of all ranks."""
        numbers, values = of_array(outputs[0], self._flat), of_array(outputs[1], self._values)
        rows = []
        for size in reversed(self.shape[: self._dims]):
            rows.append(numbers % max(size, 1))
            numbers = torch.div(numbers, max(size, 1), rounding_mode="floor")
        return torch.sparse_coo_tensor(torch.stack(rows[::-1]), values, self.shape, check_invariants=False).coalesce()
