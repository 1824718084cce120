"""Horovod's estimator for Lightning, which is not here."""

from __future__ import annotations

from typing import Any

from xoe.errors import UnsupportedError


class TorchEstimator:
    """Refuses, and says what to use."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise UnsupportedError(
            'horovod.spark.lightning is not supported; call xoe.spark.run with a function that makes a lightning.Trainer with'
            ' DDPStrategy(process_group_backend="xoe"), or use horovod.spark.torch.TorchEstimator with the network'
        )


class TorchModel(TorchEstimator):
    """Refuses, and says what to use."""
