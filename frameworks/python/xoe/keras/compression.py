"""Gradient compression by name, for every backend of Keras."""


class NoneCompressor:
    """No compression."""


class FP16Compressor:
    """Sends floating-point gradients as float16."""


class BF16Compressor:
    """The engine sends bfloat16, and sums in float32."""


class Compression:
    """What to pass as ``compression``."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
