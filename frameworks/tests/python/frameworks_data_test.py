"""The input pipeline in TensorFlow, JAX and Keras: the same batches as xoe.data's own, epochs, and a model that learns from them."""

import os
import subprocess

import ranks

ranks.use("frameworks", "jax")
ranks.start(__file__, sizes=(1, 2), KERAS_BACKEND="jax")

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import jax
import keras
import numpy as np
import tensorflow as tf

import xoe.jax
import xoe.keras
import xoe.keras.data
import xoe.tensorflow.data
from xoe.data import Images
from xoe.errors import UnsupportedError
from xoe.jax.data import ImageDataset

xoe.jax.init()
RANK, SIZE = xoe.jax.rank(), xoe.jax.size()


def make_images(folder):
    if RANK == 0:
        program = [str(ranks.BUILD / "bin" / "xoe-data"), "make", "--images", "160", "--classes", "4", "--shards", "2", folder]
        subprocess.run(program, check=True, stdout=subprocess.DEVNULL)
    xoe.jax.barrier()
    return folder


FOLDER = make_images(ranks.folder_for_all(RANK, lambda made: xoe.jax.broadcast_object(made, 0), xoe.jax.barrier))
OPTIONS = {"batch": 8, "image_size": 24, "seed": 3, "threads": 1, "training": True}


def expected(epochs=1, **options):
    with Images(FOLDER, epochs=epochs, **{**OPTIONS, **options}) as images:
        return [(np.array(np.from_dlpack(one.pixels)), np.array(np.from_dlpack(one.labels))) for one in images]


def same(batches, wanted):
    assert len(batches) == len(wanted), (len(batches), len(wanted))
    for (images, labels), (pixels, classes) in zip(batches, wanted, strict=True):
        np.testing.assert_array_equal(np.asarray(images), pixels)
        np.testing.assert_array_equal(np.asarray(labels), classes)


def test_jax():
    dataset = ImageDataset(FOLDER, **OPTIONS)
    batches = list(dataset) + list(dataset)
    assert isinstance(batches[0][0], jax.Array)
    same(batches, expected(epochs=2))
    state = dataset.state_dict()
    third = list(dataset)
    dataset.load_state_dict(state)
    same(list(dataset), [(np.asarray(images), np.asarray(labels)) for images, labels in third])


def test_tensorflow():
    dataset = xoe.tensorflow.data.image_dataset(FOLDER, **OPTIONS)
    assert dataset.element_spec[0].shape == (None, 24, 24, 3)
    assert int(dataset.cardinality()) == 160 // SIZE // 8
    same(list(dataset.prefetch(1)) + list(dataset), expected(epochs=2, layout="nhwc"))
    mixed = xoe.tensorflow.data.image_dataset(FOLDER, **OPTIONS, mixup_alpha=0.2, classes=4)
    images, targets = next(iter(mixed))
    assert images.dtype == tf.float32 and targets.shape == (8, 4)
    np.testing.assert_allclose(tf.reduce_sum(targets, axis=1), np.ones(8), rtol=1e-5)
    halves, _ = next(iter(xoe.tensorflow.data.image_dataset(FOLDER, **OPTIONS, dtype="float16")))
    assert halves.dtype == tf.float16
    try:
        xoe.tensorflow.data.image_dataset(FOLDER, **OPTIONS, dtype="bfloat16")
    except UnsupportedError as error:
        assert "float16" in str(error)
    else:
        raise AssertionError("bfloat16 was taken")


def test_keras():
    dataset = xoe.keras.data.ImageDataset(FOLDER, **OPTIONS)
    same([dataset[number] for number in range(len(dataset))], expected(layout="nhwc"))
    model = keras.Sequential(
        [
            keras.layers.Input((24, 24, 3)),
            keras.layers.Conv2D(8, 3, strides=2, activation="relu"),
            keras.layers.Flatten(),
            keras.layers.Dense(4),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(xoe.keras.DistributedOptimizer(keras.optimizers.Adam(3e-3)), loss, metrics=["accuracy"])
    begin = xoe.keras.callbacks.BroadcastGlobalVariablesCallback(0)
    average = xoe.keras.callbacks.MetricAverageCallback()
    history = model.fit(dataset, epochs=8, verbose=0, callbacks=[begin, average]).history
    assert history["accuracy"][-1] > 0.6, history  # four classes
    assert len(dataset) * 8 == int(model.optimizer.iterations)


ranks.call_tests(globals())
