"""Failures in compiled programs: where a rank is killed, or ends with an exception, inside of a jitted function, a tf.function or a fit(), all
others get a typed error that names it within a second, and live on."""

import re
import signal
import textwrap

import ranks

ranks.use("frameworks", "jax")

PATIENCE = 1.0  # seconds, without other work

BEGIN = """
import os, signal, sys, time
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the launcher's, to see what the rank itself does
def dies(how):
    print("dies", time.monotonic(), flush=True)
    if how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    raise ValueError("an error of its own")
"""

END = """
for number in range(5):
    step(number)
hvd.barrier() if hasattr(hvd, "barrier") else None
try:
    with typed():
        step(dies if hvd.rank() == 1 else 5)
except PeerLostError as error:
    print("told", time.monotonic(), flush=True)
    assert 1 in error.ranks, error.ranks
    print(f"caught: {error}", flush=True)
    try:
        with typed():
            step(6)
    except (HorovodInternalError, RuntimeError) as later:  # Keras on JAX: its arrays went with the program that failed
        print(f"later: {later}", flush=True)
    hvd.shutdown()
    print("lives on", flush=True)
    sys.exit(3)
"""

PROGRAMS = {
    "jax": """
import jax, jax.numpy as jnp, xoe.jax as hvd
from xoe.errors import HorovodInternalError, PeerLostError
hvd.init()
typed = hvd.typed_errors
def program(x):
    total = hvd.allreduce(x)
    return hvd.allreduce(total * 2)
plain = jax.jit(program)
def doomed(x):
    total = hvd.allreduce(x)
    jax.experimental.io_callback(lambda v: dies("HOW"), None, total, ordered=True)
    return hvd.allreduce(total * 2)
doomed = jax.jit(doomed)
import jax.experimental
def step(what):
    if callable(what):
        jax.block_until_ready(doomed(jnp.ones(1000)))
        jax.effects_barrier()
        raise SystemExit("its own error was lost")
    jax.block_until_ready(plain(jnp.ones(1000)))
""",
    "tensorflow": """
import tensorflow as tf, xoe.tensorflow as hvd
from xoe.errors import HorovodInternalError, PeerLostError
hvd.init()
typed = hvd.typed_errors
@tf.function
def plain(x):
    return hvd.allreduce(hvd.allreduce(x) * 2)
@tf.function
def doomed(x):
    total = hvd.allreduce(x)
    tf.py_function(lambda v: dies("HOW"), [total], [])
    return hvd.allreduce(total * 2)
def step(what):
    if callable(what):
        doomed(tf.ones(1000))
        raise SystemExit("its own error was lost")
    plain(tf.ones(1000))
""",
    "tensorflow compiled": """
import tensorflow as tf, xoe.tensorflow as hvd
from xoe.errors import HorovodInternalError, PeerLostError
hvd.init()
typed = hvd.typed_errors
@tf.function(jit_compile=True)
def plain(x):
    return hvd.allreduce(hvd.allreduce(x) * 2)
def step(what):
    total = plain(tf.ones(1000))
    if callable(what):
        what("HOW")
    plain(total)
""",
    "keras": """
import keras, numpy as np, xoe.keras as hvd
from xoe import _failures
from xoe.errors import HorovodInternalError, PeerLostError
hvd.init()
typed = lambda: _failures.typed(Exception)
model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(2)])
model.compile(optimizer=hvd.DistributedOptimizer(keras.optimizers.SGD(0.1)), loss="mse")
class Doomed(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 2: dies("HOW")
def step(what):
    model.fit(np.ones((32, 4)), np.ones((32, 2)), batch_size=4, verbose=0, callbacks=[Doomed()] if callable(what) else [])
""",
}


def look(folder, framework, how, **variables):
    path = folder / f"{framework.replace(' ', '_')}_{how}.py"
    path.write_text(BEGIN + textwrap.dedent(PROGRAMS[framework]).replace("HOW", how) + END)
    done = ranks.run(3, path, options=ranks.LET_SPEAK, **variables)
    assert done.returncode == (128 + signal.SIGKILL if how == "killed" else 1), done.stdout
    died = float(re.search(r"\[1\] dies ([\d.]+)", done.stdout)[1])
    if how != "killed":
        assert "an error of its own" in done.stdout, done.stdout
    for rank in (0, 2):
        told = re.search(rf"\[{rank}\] told ([\d.]+)", done.stdout)
        assert told, done.stdout
        seconds = float(told[1]) - died
        print(f"{framework} {how} {variables}: rank {rank} was told after {seconds:.2f} s", flush=True)
        assert seconds < ranks.told_within(PATIENCE), done.stdout
        assert re.search(rf"\[{rank}\] caught: .*rank 1", done.stdout), done.stdout
        assert re.search(rf"\[{rank}\] later: ", done.stdout), done.stdout
        assert f"[{rank}] lives on" in done.stdout, done.stdout


def test_jax(folder):
    for how in ("killed", "raises"):
        look(folder, "jax", how)


def test_tensorflow(folder):
    for how in ("killed", "raises"):
        look(folder, "tensorflow", how)
        look(folder, "tensorflow compiled", how)


def test_keras(folder):
    for backend in ("tensorflow", "jax", "torch"):
        look(folder, "keras", "killed", KERAS_BACKEND=backend)
        look(folder, "keras", "raises", KERAS_BACKEND=backend)


ranks.drive(globals())
