"""Elastic training with each framework, whose ranks are killed in the middle of training and restarted: it ends with the numbers of an undisturbed
run."""

import re
import textwrap

import ranks

ranks.use("frameworks", "jax")

BEGIN = """
import os, pathlib, signal, sys
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np
folder, *victims = sys.argv[1:]
def maybe_die(rank, step):
    mark = pathlib.Path(folder, f"{rank}.{step}")
    if f"{rank}:{step}" in victims and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
def batch(rank, step):
    generator = np.random.default_rng(10 * step + rank)
    inputs = generator.normal(size=(6, 4)).astype("float32")
    return inputs, np.sin(inputs[:, :2])
def end(values):
    print("ended with", [round(float(x), 4) for value in values for x in np.asarray(value).ravel()], flush=True)
"""

PROGRAMS = {
    "jax": """
import jax, jax.numpy as jnp, optax, xoe.jax as hvd
hvd.init()
optimizer = hvd.DistributedOptimizer(optax.adam(1e-2))
params = {"w": jax.random.normal(jax.random.key(hvd.rank()), (4, 2))}
state = hvd.elastic.JaxState(params=params, moments=optimizer.init(params), step=0)
@jax.jit
def update(params, moments, x, y):
    gradients = jax.grad(lambda p: jnp.mean((x @ p["w"] - y) ** 2))(params)
    updates, moments = optimizer.update(gradients, moments, params)
    return optax.apply_updates(params, updates), moments
@hvd.elastic.run
def train(state):
    while state.step < 12:
        maybe_die(hvd.rank(), state.step)
        state.params, state.moments = update(state.params, state.moments, *batch(hvd.rank(), state.step))
        state.step += 1
        if state.step % 3 == 0:
            state.commit()
train(state)
end([state.params["w"]])
""",
    "tensorflow": """
import keras, tensorflow as tf, xoe.tensorflow as hvd
hvd.init()
w = tf.Variable(np.random.default_rng(hvd.rank()).normal(size=(4, 2)).astype("float32"))
optimizer = keras.optimizers.Adam(1e-2)
optimizer.build([w])
state = hvd.elastic.TensorFlowState([w, *[v.value for v in optimizer.variables]], step=0)
def update(x, y):
    with hvd.DistributedGradientTape(tf.GradientTape()) as tape:
        loss = tf.reduce_mean((x @ w - y) ** 2)
    optimizer.apply_gradients([(tape.gradient(loss, w), w)])
program = tf.function(update)
@hvd.elastic.run
def train(state):
    while state.step < 12:
        maybe_die(hvd.rank(), state.step)
        program(*map(tf.constant, batch(hvd.rank(), state.step)))
        state.step += 1
        if state.step % 3 == 0:
            state.commit()
train(state)
end([w])
""",
    "keras": """
import keras, xoe.keras as hvd
hvd.init()
keras.utils.set_random_seed(hvd.rank())
model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(2)])
model.compile(optimizer=hvd.DistributedOptimizer(keras.optimizers.Adam(1e-2)), loss="mse")
state = hvd.elastic.KerasState(model, epoch=0)
class Dies(keras.callbacks.Callback):
    def on_train_batch_end(self, number, logs=None):
        if number == 1:
            maybe_die(hvd.rank(), state.epoch)
@hvd.elastic.run
def train(state):
    while state.epoch < 6:
        x, y = (np.concatenate(parts) for parts in zip(*(batch(hvd.rank(), 10 * state.epoch + part) for part in range(4))))
        model.fit(x, y, batch_size=6, shuffle=False, verbose=0, callbacks=[Dies()])
        state.epoch += 1
        state.commit()
train(state)
end(model.get_weights())
""",
}


def train(folder, framework, victims, **variables):
    path = folder / f"train_{framework}.py"
    path.write_text(BEGIN + textwrap.dedent(PROGRAMS[framework]))
    options = ("--restarts", str(len(victims)))
    done = ranks.run(3, path, folder, *victims, options=options, **variables)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("was killed by SIGKILL") == len(victims), done.stdout
    ends = re.findall(r"ended with (.*)", done.stdout)
    assert len(ends) == 3 and len(set(ends)) == 1, done.stdout
    return ends[0]


def look(folder, framework, victims, **variables):
    undisturbed = train(folder, framework, (), **variables)
    assert train(folder, framework, victims, **variables) == undisturbed
    print(f"{framework} {variables}: goes on after {', '.join(victims)}", flush=True)


def test_jax(folder):
    look(folder, "jax", ("1:4", "0:7"))


def test_tensorflow(folder):
    look(folder, "tensorflow", ("2:4", "0:7"))


def test_keras_on_tensorflow(folder):
    look(folder, "keras", ("1:2",), KERAS_BACKEND="tensorflow")


def test_keras_on_jax(folder):
    look(folder, "keras", ("1:2",), KERAS_BACKEND="jax")


def test_keras_on_torch(folder):
    look(folder, "keras", ("0:3",), KERAS_BACKEND="torch")


ranks.drive(globals())
