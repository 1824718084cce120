"""What the ranks of the tests of xoe.tensorflow give, and how results are compared."""

import numpy as np
import tensorflow as tf

import xoe.tensorflow as hvd

TYPES = (
    tf.float32, tf.float64, tf.float16, tf.bfloat16, tf.uint8, tf.int8, tf.int16, tf.int32, tf.int64, tf.uint16, tf.uint32, tf.uint64, tf.bool,
    tf.complex64, tf.complex128,
)  # fmt: skip


def values(rank=None, dtype=tf.float32, shape=(5, 3), seed=0):
    """What a rank, default this one, gives: small numbers, exact in every type."""
    rank = hvd.rank() if rank is None else rank
    return tf.cast(np.random.default_rng(1000 * seed + rank).integers(0, 4, shape), dtype)


def everyone(**options):
    """The values of all ranks."""
    return [values(rank, **options).numpy() for rank in range(hvd.size())]


def total(dtype=tf.float32, **options):
    """Their sum."""
    given = everyone(dtype=dtype, **options)
    return np.any(given, axis=0) if dtype == tf.bool else np.sum(given, axis=0).astype(given[0].dtype)


def same(result, expected, dtype=None):
    assert dtype is None or result.dtype == dtype, (result.dtype, dtype)
    np.testing.assert_array_equal(np.asarray(result), np.asarray(expected))
