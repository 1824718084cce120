"""Programs of TensorFlow that were traced on one rank, in a job that then has two, and one again: they reduce among the ranks that there are."""

import re
import textwrap

import ranks

ranks.use("frameworks", "tensorflow")

BEGIN = """
import os, signal, time
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import keras, numpy as np, tensorflow as tf
"""

# The gradients of a rank are its place in the job, plus one.
TAPE = """
import xoe.tensorflow as hvd
hvd.init()
place = int(os.environ["XOE_RANK"]) + 1
dense, table = tf.Variable(tf.zeros([3])), tf.Variable(tf.zeros([4, 2]))
own = tf.Variable(tf.zeros([2]))

@tf.function
def gradients():
    tape = hvd.DistributedGradientTape(tf.GradientTape())
    tape.register_local_source(own)
    with tape:
        rows = tf.nn.embedding_lookup(table, [1])
        loss = float(place) * (tf.reduce_sum(dense) + tf.reduce_sum(rows) + tf.reduce_sum(own))
    of_dense, of_table, of_own = tape.gradient(loss, [dense, table, own])
    return of_dense, tf.convert_to_tensor(of_table), of_own

@hvd.elastic.run
def train(state):
    while state.alone < 4:
        size = hvd.size()
        if size == 1 and place == 1 and state.together:
            state.alone += 1
        if size == 2 and state.together == 5 and place == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        of_dense, of_table, of_own = (one.numpy() for one in gradients())
        wanted = 1.0 if size == 1 else 1.5
        assert (of_dense == wanted).all(), (size, of_dense)
        assert (of_table[1] == wanted).all() and of_table.sum() == 2 * wanted, (size, of_table)
        assert (of_own == place / size).all(), (size, of_own)
        state.together += size == 2
        state.step += 1
        state.commit()
        time.sleep(0.05)
    print("ended after", state.together, "steps of two", gradients.experimental_get_tracing_count(), "traced", flush=True)

train(hvd.elastic.TensorFlowState([dense], step=0, together=0, alone=0))
"""

FIT = """
import xoe.keras as hvd
hvd.init()
keras.utils.set_random_seed(int(os.environ["XOE_RANK"]))
model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(2)])
model.compile(optimizer=hvd.DistributedOptimizer(keras.optimizers.SGD(1e-2)), loss="mse")
state = hvd.elastic.KerasState(model, epoch=0, together=0)

@hvd.elastic.run
def train(state):
    while state.together < 4:
        rows = np.random.default_rng(10 * state.epoch + hvd.rank()).normal(size=(24, 4)).astype("float32")
        model.fit(rows, np.sin(rows[:, :2]), batch_size=6, verbose=0, shuffle=False)
        weights = [np.asarray(value).tolist() for value in model.get_weights()]
        everywhere = hvd.allgather_object(weights)
        assert all(one == weights for one in everywhere), everywhere
        state.epoch += 1
        state.together += hvd.size() == 2
        state.commit()
    print("ended after", state.together, "epochs of two", flush=True)

train(state)
"""


def train(folder, program, **variables):
    path = folder / "program.py"
    path.write_text(BEGIN + textwrap.dedent(program))
    # Two slots, of which one has a rank at the start; the other one's joins when it has loaded its program.
    options = ("-H", "localhost:2", "--min-np", "1", "--max-np", "2")
    return ranks.run(1, path, options=options, **variables)


def test_tapes(folder):
    done = train(folder, TAPE)
    assert done.returncode == 0, done.stdout
    assert re.findall(r"ended after (\d) steps of two (\d) traced", done.stdout) == [("5", "1")], done.stdout


def test_fit(folder):
    done = train(folder, FIT, KERAS_BACKEND="tensorflow")
    assert done.returncode == 0 and done.stdout.count("ended after 4 epochs of two") == 2, done.stdout


ranks.drive(globals())
