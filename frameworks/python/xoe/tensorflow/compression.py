"""Gradient compression, with Horovod's names. A custom compressor has ``compress`` and ``decompress``; ``wire`` names a
compression of the engine instead, which it applies on the way between ranks only."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from xoe import _core


class Compressor:
    """Leaves tensors unchanged."""

    wire: int = _core.COMPRESSIONS["none"]

    @staticmethod
    def compress(tensor: Any) -> tuple[Any, Any]:
        """Returns the tensor to send, and a context for ``decompress``."""
        return tensor, None

    @staticmethod
    def decompress(tensor: Any, context: Any) -> Any:
        """Returns the received tensor in its original type."""
        del context
        return tensor


class NoneCompressor(Compressor):
    """No compression."""


class FP16Compressor(Compressor):
    """Sends floating-point tensors as float16: casts before and after, as Horovod does."""

    @staticmethod
    def compress(tensor: Any) -> tuple[Any, Any]:
        if not tensor.dtype.is_floating or tensor.dtype == tf.float16:
            return tensor, None
        return tf.cast(tensor, tf.float16), tensor.dtype

    @staticmethod
    def decompress(tensor: Any, context: Any) -> Any:
        return tensor if context is None else tf.cast(tensor, context)


class BF16Compressor(Compressor):
    """The engine sends bfloat16, and sums in float32."""

    wire = _core.COMPRESSIONS["bfloat16"]


class Compression:
    """What to pass as ``compression``."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
