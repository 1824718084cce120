"""xoe.keras on the backend of KERAS_BACKEND: training against one process with the joined batch, callbacks, saving, errors.

Started by itself it runs on all three backends, on 1, 2 and 3 ranks: or keras_test.py BACKEND [RANKS...].
"""

import os
import pathlib
import subprocess
import sys

import ranks
from checks import operations, raises

BACKENDS = ("tensorflow", "jax", "torch")
ranks.use("frameworks", "keras")
if sys.argv[1:2] and sys.argv[1] in BACKENDS:
    os.environ["KERAS_BACKEND"] = sys.argv.pop(1)
if "KERAS_BACKEND" not in os.environ:
    ranks.interpreter()
    codes = [subprocess.run([sys.executable, __file__, backend, *sys.argv[1:]], check=False).returncode for backend in BACKENDS]
    sys.exit(max(codes))
ranks.start(__file__, sizes=(1, 2, 3), KERAS_BACKEND=os.environ["KERAS_BACKEND"])

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import json
import tempfile
import zipfile

import keras
import numpy as np

import xoe.keras as hvd
from xoe.errors import InvalidArgumentError, UnsupportedError

hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()
BACKEND = keras.backend.backend()
BATCH = 12
GENERATOR = np.random.default_rng(0)
INPUTS = GENERATOR.normal(size=(96, 10)).astype("float32")
LABELS = (INPUTS @ GENERATOR.normal(size=(10, 3))).argmax(1)


def model_of(seed=0):
    keras.utils.set_random_seed(seed)
    return keras.Sequential(
        [keras.layers.Input((10,)), keras.layers.Dense(16, activation="tanh"), keras.layers.Dense(3, name="last")]
    )


def compiled(optimizer, seed=0):
    model = model_of(seed)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=optimizer, loss=loss, metrics=["accuracy"])
    return model


def shard():
    """This rank's part of each batch, so that the ranks' batches together are the batches of one process."""
    order = np.arange(96).reshape(-1, BATCH)[:, RANK::SIZE].ravel()
    return INPUTS[order], LABELS[order]


def fit(model, data, batch, callbacks=(), epochs=3, **options):
    return model.fit(*data, batch_size=batch, epochs=epochs, shuffle=False, verbose=0, callbacks=list(callbacks), **options)


def weights(model):
    return [keras.ops.convert_to_numpy(weight) for weight in model.weights]


def close(model, expected):
    for value, other in zip(weights(model), weights(expected), strict=True):
        np.testing.assert_allclose(value, other, rtol=5e-5, atol=5e-6)


def optimizers():
    return [keras.optimizers.SGD(0.1, momentum=0.9), keras.optimizers.AdamW(1e-2)]


def test_training_is_one_process_with_the_joined_batch():
    for distributed, plain, lone in zip(optimizers(), optimizers(), optimizers(), strict=True):
        expected = compiled(plain)
        fit(expected, (INPUTS, LABELS), BATCH)
        model = compiled(hvd.DistributedOptimizer(distributed), seed=RANK)
        begin = hvd.callbacks.BroadcastGlobalVariablesCallback(0)
        history = fit(model, shard(), BATCH // SIZE, [begin, hvd.callbacks.MetricAverageCallback()])
        close(model, expected)
        for weight in weights(model):
            for other in hvd.allgather(weight[None]):
                np.testing.assert_array_equal(other, weight)
        losses = hvd.allgather(np.array(history.history["loss"])[None])
        np.testing.assert_array_equal(losses, np.repeat(losses[:1], SIZE, axis=0))
        alone = compiled(lone)
        fit(alone, shard(), BATCH // SIZE)
        if SIZE > 1:  # the test would notice gradients that are not averaged
            assert not np.allclose(weights(alone)[0], weights(model)[0], rtol=1e-3)


def test_weights_that_the_first_batch_makes_are_broadcast_after_it():
    """As those of tf_keras are where a model does not know the shape of its inputs."""
    keras.utils.set_random_seed(RANK)
    model = keras.Sequential([keras.layers.Dense(3)])
    model.compile(optimizer=hvd.DistributedOptimizer(keras.optimizers.SGD(0.1)))
    callback = hvd.callbacks.BroadcastGlobalVariablesCallback(0)
    callback.set_model(model)
    callback.on_train_begin()
    assert not callback.broadcast_done
    model.build((None, 4))
    own = weights(model)[0]
    callback.on_train_batch_end(0)
    first = np.asarray(hvd.broadcast(own, 0))
    np.testing.assert_array_equal(weights(model)[0], first)
    assert SIZE == 1 or len({row.tobytes() for row in np.asarray(hvd.allgather(own[None]))}) == SIZE
    model.layers[0].kernel.assign(own)
    callback.on_train_batch_end(1)
    np.testing.assert_array_equal(weights(model)[0], own)  # once is enough


def test_gradients_are_reduced_in_every_step():
    model = compiled(hvd.DistributedOptimizer(keras.optimizers.SGD(0.1)))
    fit(model, shard(), BATCH // SIZE, epochs=1)  # traces
    before = operations()
    fit(model, shard(), BATCH // SIZE, epochs=1)
    steps = 96 // BATCH
    assert operations() - before == (steps if SIZE > 1 else 0), operations() - before


def test_accumulation_and_compression():
    expected = compiled(keras.optimizers.SGD(0.1))
    fit(expected, (INPUTS, LABELS), 2 * BATCH, epochs=1)
    own = shard()
    for optimizer in (
        hvd.DistributedOptimizer(keras.optimizers.SGD(0.1), backward_passes_per_step=2),
        hvd.DistributedOptimizer(keras.optimizers.SGD(0.1, gradient_accumulation_steps=2)),
    ):
        model = compiled(optimizer)
        fit(model, own, BATCH // SIZE, epochs=1)
        close(model, expected)
    for compression in (hvd.Compression.fp16, hvd.Compression.bf16):
        model = compiled(hvd.DistributedOptimizer(keras.optimizers.SGD(0.1), compression=compression))
        fit(model, own, BATCH // SIZE, epochs=1)
        reference = compiled(keras.optimizers.SGD(0.1))
        fit(reference, (INPUTS, LABELS), BATCH, epochs=1)
        np.testing.assert_allclose(weights(model)[0], weights(reference)[0], rtol=0.05, atol=0.02)


def test_loss_scale():
    """A rank whose gradients overflow makes all ranks leave the step out, and halve the scale."""
    keras.config.set_dtype_policy("mixed_float16")
    try:
        scaled = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1), initial_scale=4.0)
        model = compiled(hvd.DistributedOptimizer(scaled))
        if SIZE > 1:
            raises(
                UnsupportedError, lambda: compiled(hvd.DistributedOptimizer(keras.optimizers.SGD(0.1))), "LossScaleOptimizer"
            )
    finally:
        keras.config.set_dtype_policy("float32")
    inputs, labels = shard()
    begin = weights(model)
    bad = inputs.copy()
    if RANK == SIZE - 1:
        bad[: BATCH // SIZE] = np.inf
    batch = BATCH // SIZE
    fit(model, (bad[:batch], labels[:batch]), batch, epochs=1)
    for value, other in zip(weights(model), begin, strict=True):
        np.testing.assert_array_equal(value, other)
    assert float(keras.ops.convert_to_numpy(model.optimizer.dynamic_scale)) == 2.0
    fit(model, (inputs, labels), batch, epochs=1)
    assert not np.array_equal(weights(model)[0], begin[0])
    for weight in weights(model):
        for other in hvd.allgather(weight[None]):
            np.testing.assert_array_equal(other, weight)


def test_learning_rate_callbacks():
    model = compiled(hvd.DistributedOptimizer(keras.optimizers.SGD(0.4)))
    warmup = hvd.callbacks.LearningRateWarmupCallback(0.4, warmup_epochs=2)
    later = hvd.callbacks.LearningRateScheduleCallback(0.4, multiplier=lambda epoch: 0.1**epoch, start_epoch=3)
    history = fit(model, shard(), BATCH // SIZE, [warmup, later], epochs=5)
    rates = history.history["lr"]
    np.testing.assert_allclose(rates[1:], [0.4, 0.4, 0.4e-3, 0.4e-4], rtol=1e-5)
    assert 0.4 / SIZE - 1e-6 <= rates[0] <= 0.4 + 1e-6 and (SIZE == 1 or rates[0] < 0.39), rates


def test_throughput_and_timeline():
    with tempfile.TemporaryDirectory() as folder:
        path = str(pathlib.Path(folder) / "timeline.json")
        model = compiled(hvd.DistributedOptimizer(keras.optimizers.SGD(0.1)))
        calls = [hvd.callbacks.ThroughputCallback(BATCH // SIZE), hvd.callbacks.TimelineCallback(path, epoch=1)]
        history = fit(model, shard(), BATCH // SIZE, calls, epochs=3)
        speeds = hvd.allgather(np.array(history.history["samples_per_second"])[None])
        assert (speeds > 0).all() and (speeds == speeds[0]).all()
        if RANK == 0 and SIZE > 1:
            assert "allreduce" in pathlib.Path(path).read_text()
        hvd.allgather(np.zeros(1))  # the folder stays until all have looked


def test_saving_and_loading():
    with tempfile.TemporaryDirectory() as folder:
        path = str(pathlib.Path(folder) / "best.keras")
        model = compiled(hvd.DistributedOptimizer(keras.optimizers.Adam(1e-2)))
        best = hvd.callbacks.BestModelCheckpoint(path, monitor="loss")
        fit(model, shard(), BATCH // SIZE, [hvd.callbacks.MetricAverageCallback(), best])
        assert pathlib.Path(path).exists() == (RANK == 0)
        model.save(path)
        config = json.loads(zipfile.ZipFile(path).read("config.json"))["compile_config"]["optimizer"]
        assert config["class_name"] == "Adam" and "xoe" not in json.dumps(config), config
        plain = keras.models.load_model(path)
        assert not hasattr(plain.optimizer, "_xoe")
        loaded = hvd.load_model(path)
        for number, value in enumerate(loaded.optimizer.variables):
            np.testing.assert_array_equal(
                keras.ops.convert_to_numpy(value), keras.ops.convert_to_numpy(model.optimizer.variables[number])
            )
        before = operations()
        fit(loaded, shard(), BATCH // SIZE, epochs=1)
        assert SIZE == 1 or operations() - before == 96 // BATCH + 1  # the second step is looked at
        close(loaded, _trained_on(path, loaded))


def _trained_on(path, reference):
    """The file's model, trained for an epoch in one process on the joined batches."""
    model = keras.models.load_model(path)
    fit(model, (INPUTS, LABELS), BATCH, epochs=1)
    del reference
    return model


def test_elastic_state():
    model = compiled(hvd.DistributedOptimizer(keras.optimizers.SGD(0.1)), seed=RANK)
    state = hvd.elastic.KerasState(model, epoch=0, batch=0)
    state.sync()
    start = weights(model)
    callbacks = [hvd.elastic.CommitStateCallback(state, 4), hvd.elastic.UpdateEpochStateCallback(state)]
    fit(model, shard(), BATCH // SIZE, callbacks, epochs=2)
    assert state.epoch == 2
    trained = weights(model)
    model.set_weights(start)
    state.restore()
    for value, other in zip(weights(model), trained, strict=True):
        np.testing.assert_array_equal(value, other)
    raises(InvalidArgumentError, lambda: hvd.elastic.KerasState(keras.Sequential([keras.layers.Dense(2)])), "no weights yet")


def test_elastic_callbacks_count():
    model = compiled(hvd.DistributedOptimizer(keras.optimizers.SGD(0.1)))
    state = hvd.elastic.KerasState(model, epoch=0, batch=0)
    seen, commits = [], []

    class Look(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            seen.append((state.epoch, state.batch))

    class Commits(hvd.elastic.CommitStateCallback):
        def commit(self):
            commits.append(state.epoch)
            super().commit()

    elastic = [hvd.elastic.UpdateEpochStateCallback(state), hvd.elastic.UpdateBatchStateCallback(state)]
    data, batches = shard(), len(INPUTS) // BATCH
    options = {
        "batch_size": BATCH // SIZE,
        "shuffle": False,
        "verbose": 0,
        "callbacks": [*elastic, Look(), Commits(state, batches // 2)],
    }
    model.fit(*data, epochs=2, **options)
    assert seen == [(epoch, batch) for epoch in range(2) for batch in range(batches)], seen
    assert (state.epoch, state.batch) == (2, 0)
    # Whether Keras's own count goes on, or begins again as in Horovod's programs.
    model.fit(*data, initial_epoch=state.epoch, epochs=3, **options)
    assert state.epoch == 3
    model.fit(*data, epochs=5 - state.epoch, **options)
    assert state.epoch == 5
    assert [commits.count(epoch) for epoch in range(6)] == [2, 3, 3, 3, 3, 1], commits


def test_values():
    assert hvd.allreduce(float(RANK)) == sum(range(SIZE)) / SIZE
    assert hvd.allreduce(float(RANK), op=hvd.Max) == SIZE - 1
    np.testing.assert_array_equal(hvd.broadcast(keras.ops.ones(3) * RANK, SIZE - 1), np.full(3, SIZE - 1))
    assert hvd.allgather(np.zeros((RANK, 2))).shape == (sum(range(SIZE)), 2)


def test_wrong_calls():
    raises(InvalidArgumentError, lambda: hvd.DistributedOptimizer("adam"), "keras.optimizers.get('adam')")
    twice = hvd.DistributedOptimizer(keras.optimizers.SGD(0.1))
    raises(InvalidArgumentError, lambda: hvd.DistributedOptimizer(twice), "twice")
    if BACKEND != "jax":
        raises(UnsupportedError, hvd.distribution.initialize, BACKEND, "DistributedOptimizer")


ranks.call_tests(globals())
