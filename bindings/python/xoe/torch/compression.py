"""Gradients made smaller on their way.

A compressor of your own has ``compress`` and ``decompress``, as in Horovod; those with a ``wire`` form leave the tensor as it
is and are applied by the engine while it packs tensors, on the way between ranks only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from xoe import _core


@dataclass(frozen=True)
class Wire:
    """A compression of the engine: float tensors, op Average or Sum."""

    kind: str
    error_feedback: bool = False
    top_k_ratio: float = 0.01
    power_sgd_rank: int = 4

    @property
    def number(self) -> int:
        return _core.COMPRESSIONS[self.kind]


class Compressor:
    """Leaves tensors as they are. Subclass it, or give ``DistributedOptimizer`` anything with these two methods."""

    wire: Wire | None = None

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        """The tensor to send, and what ``decompress`` needs to know."""
        return tensor, None

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        """The tensor that was received, as it was before."""
        return tensor


class NoneCompressor(Compressor):
    """No compression."""


class FP16Compressor(Compressor):
    """Floating-point tensors travel as float16; Horovod's, which casts before and after."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        if not tensor.dtype.is_floating_point:
            return tensor, None
        return tensor.to(torch.float16), tensor.dtype

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        return tensor if ctx is None else tensor.to(ctx)


class WireCompressor(Compressor):
    """One of the engine's compressions."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire

    def __repr__(self) -> str:
        return f"Compression({self.wire})"


class Compression:
    """What ``compression=`` may be."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = WireCompressor(Wire("bfloat16"))
    fp8 = WireCompressor(Wire("float8", error_feedback=True))

    @staticmethod
    def top_k(ratio: float = 0.01) -> WireCompressor:
        """The largest values only; what is left out is added to the next step's."""
        return WireCompressor(Wire("top_k", error_feedback=True, top_k_ratio=ratio))

    @staticmethod
    def power_sgd(rank: int = 4) -> WireCompressor:
        """Low-rank factors. Vogels et al., "PowerSGD", 2019."""
        return WireCompressor(Wire("power_sgd", error_feedback=True, power_sgd_rank=rank))
