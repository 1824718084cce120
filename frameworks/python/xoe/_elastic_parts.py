"""What an elastic state holds beside values: objects that keep their own place and go on from it."""

from __future__ import annotations

from typing import Any


class ElasticPart:
    """A data set, a sampler or a ledger. States save, restore and copy its ``state_dict()``, the same on all ranks."""

    def follow(self) -> None:
        """A state holds this from now on."""

    def state_dict(self) -> dict[str, Any]:
        """The place; plain values."""
        raise NotImplementedError

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from a place."""
        raise NotImplementedError

    def reset(self) -> None:
        """The ranks are others from now on."""

    def steps_done(self, steps: int) -> None:
        """So many steps have been done with what this gave: for callbacks, which see the ends of batches."""
