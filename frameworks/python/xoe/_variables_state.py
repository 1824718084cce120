"""Variables of a framework as elastic state."""

from __future__ import annotations

from typing import Any

import numpy as np

from xoe import _arrays
from xoe.elastic import ObjectState


class VariablesState(ObjectState):
    """Variables, whose copies are arrays of NumPy, and plain objects, data sets and ledgers, one attribute per keyword."""

    def __init__(self, **values: Any) -> None:
        self._copies: list[Any] = []
        super().__init__(**values)
        self._copies = self._now()

    def _kept(self) -> list[Any]:
        raise NotImplementedError

    def _now(self) -> list[Any]:
        return [np.array(variable) for variable in self._kept()]

    def _assign_all(self, values: list[Any]) -> None:
        for variable, value in zip(self._kept(), values, strict=True):
            variable.assign(value)

    def _keep(self) -> None:
        self._copies = self._now()
        super()._keep()

    def restore(self) -> None:
        self._assign_all(self._copies)
        super().restore()

    def _copy_from(self, source: int) -> None:
        self._assign_all(_arrays.broadcast(self._now(), source))
        super()._copy_from(source)
        self._copies = self._now()
