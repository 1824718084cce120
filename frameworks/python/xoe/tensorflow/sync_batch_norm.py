"""Batch normalization over the batches of all ranks."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from xoe import world as _world
from xoe.process_sets import global_process_set
from xoe.reduction import Sum
from xoe.tensorflow.collectives import allreduce


class SyncBatchNormalization(keras.layers.BatchNormalization):
    """Keras's layer, with mean and variance over the batches of all ranks while it trains."""

    def _moments(self, inputs: Any, mask: Any) -> Any:
        mean, variance = super()._moments(inputs, mask)
        if not _world.is_initialized() or global_process_set._stays_alone():
            return mean, variance
        # Each rank's share of all elements: a mask, or a last batch, may leave ranks with different numbers.
        elements = tf.size(inputs) / tf.size(mean) if mask is None else tf.reduce_sum(tf.cast(mask, mean.dtype))
        count = tf.cast(elements, mean.dtype)
        square = variance + tf.square(mean)
        total = allreduce(tf.stack([mean * count, square * count, tf.fill(tf.shape(mean), count)]), op=Sum)
        mean = tf.math.divide_no_nan(total[0], total[2])
        return mean, tf.math.divide_no_nan(total[1], total[2]) - tf.square(mean)
