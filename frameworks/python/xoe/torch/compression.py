"""Gradient compression.

A custom compressor has ``compress`` and ``decompress``, as in Horovod. A compressor with a ``wire`` form leaves tensors
unchanged: the engine compresses them while it packs them, for the transfer between ranks only.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from xoe import _core


class Wire(NamedTuple):
    """A compression of the engine: float tensors, op Average or Sum."""

    kind: str
    error_feedback: bool = False
    top_k_ratio: float = 0.01
    power_sgd_rank: int = 4

    @property
    def number(self) -> int:
        return _core.COMPRESSIONS[self.kind]


class Compressor:
    """Leaves tensors unchanged. Subclass it, or pass ``DistributedOptimizer`` any object with these two methods."""

    wire: Wire | None = None

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        """Returns the tensor to send, and a context for ``decompress``."""
        return tensor, None

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        """Returns the received tensor in its original type."""
        return tensor


class NoneCompressor(Compressor):
    """No compression."""


class FP16Compressor(Compressor):
    """Sends floating-point tensors as float16: casts before and after, as Horovod does."""

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
    """Values for ``compression=``."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = WireCompressor(Wire("bfloat16"))
    fp8 = WireCompressor(Wire("float8", error_feedback=True))

    @staticmethod
    def top_k(ratio: float = 0.01) -> WireCompressor:
        """Sends the largest values only; the others are added to the next step's gradient."""
        return WireCompressor(Wire("top_k", error_feedback=True, top_k_ratio=ratio))

    @staticmethod
    def power_sgd(rank: int = 4) -> WireCompressor:
        """Low-rank factors. Vogels et al., "PowerSGD", 2019."""
        return WireCompressor(Wire("power_sgd", error_feedback=True, power_sgd_rank=rank))
