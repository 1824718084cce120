"""One Keras program on three backends, with the same callbacks and the same first weights, ends with the same losses."""

import re

import ranks

ranks.use("frameworks", "keras")

PROGRAM = """
import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import keras, numpy as np, xoe.keras as hvd
hvd.init()
generator = np.random.default_rng(0)
inputs = generator.normal(size=(96, 10)).astype("float32")
targets = np.sin(inputs[:, :2])
model = keras.Sequential([keras.layers.Input((10,)), keras.layers.Dense(16, activation="tanh"), keras.layers.Dense(2)])
first = np.random.default_rng(1 + hvd.rank())  # of rank 0 for all, once it has been broadcast
model.set_weights([(0.3 * first.normal(size=weight.shape)).astype("float32") for weight in model.get_weights()])
model.compile(optimizer=hvd.DistributedOptimizer(keras.optimizers.Adam(1e-2)), loss="mse")
own = np.arange(96).reshape(-1, 12)[:, hvd.rank() :: hvd.size()].ravel()
calls = [
    hvd.callbacks.BroadcastGlobalVariablesCallback(0),
    hvd.callbacks.MetricAverageCallback(),
    hvd.callbacks.LearningRateWarmupCallback(1e-2, warmup_epochs=2),
    hvd.callbacks.LearningRateScheduleCallback(1e-2, lambda epoch: 0.5 ** (epoch - 2), start_epoch=3),
]
history = model.fit(inputs[own], targets[own], batch_size=12 // hvd.size(), epochs=6, shuffle=False, verbose=0, callbacks=calls).history
if hvd.rank() == 0:
    print("losses", *history["loss"], "rates", *history["lr"], flush=True)
"""


def test_the_same_losses(folder):
    path = folder / "program.py"
    path.write_text(PROGRAM)
    found = {}
    for backend in ("tensorflow", "jax", "torch"):
        for size in (1, 2, 3):
            done = ranks.run(size, path, KERAS_BACKEND=backend)
            assert done.returncode == 0, done.stdout
            said = re.search(r"losses (.*) rates (.*)", done.stdout)
            found[backend, size] = [float(number) for number in (said[1] + " " + said[2]).split()]
            print(f"{backend} on {size} ranks: {found[backend, size]}", flush=True)
    for size in (1, 2, 3):  # the warm-up begins with another rate on each number of ranks
        expected = found["tensorflow", size]
        for backend in ("jax", "torch"):
            pairs = zip(found[backend, size], expected, strict=True)
            assert all(abs(one - other) <= 1e-4 * abs(other) for one, other in pairs), (backend, size)


ranks.drive(globals())
