"""What ranks are told in their first steps, in each framework: a forgotten broadcast, batches that all ranks share; and when they are not."""

import os

import ranks

KIND = os.environ.get("XOE_TEST_KIND", "")

if not KIND:
    import peer_python

    def run(peer, package, kind, sizes, **variables):
        ranks.use(peer, package)
        if peer_python.peer_python(peer, package) is None:
            print(peer_python.why_no(peer, package), flush=True)
            return
        for size in sizes:
            done = ranks.run(size, __file__, XOE_TEST_KIND=kind, **ranks.IN_A_RANK, **variables)
            print(f"{kind} {variables} on {size} ranks: exit code {done.returncode} after {done.seconds:.1f} s", flush=True)
            assert done.returncode == 0, done.stdout

    def test_jax(folder):
        run("frameworks", "jax", "jax", (1, 2, 3))

    def test_tensorflow(folder):
        run("frameworks", "tensorflow", "tensorflow", (1, 2, 3))

    def test_keras(folder):
        for backend in ("tensorflow", "jax", "torch"):
            run("frameworks", "keras", "keras", (1, 2), KERAS_BACKEND=backend)

    def test_tf_keras(folder):
        run("frameworks", "tf_keras", "keras", (2,), TF_USE_LEGACY_KERAS="1")

    def test_mxnet(folder):
        run("mxnet", "mxnet", "mxnet", (1, 2, 3))

    ranks.drive(globals())

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import contextlib
import warnings

import numpy as np
from checks import operations

from xoe.errors import FirstStepWarning
from xoe.first_step import VARIABLE

ON_TENSORFLOW = KIND == "tensorflow" or (KIND == "keras" and os.environ.get("KERAS_BACKEND", "tensorflow") == "tensorflow")
STEPS = 4


def batch(step, same_batches, rows=4):
    return np.random.default_rng(100 * step + (0 if same_batches else 1 + RANK)).normal(size=(rows, 3)).astype("float32")


def first_weight(same_start, columns=5):
    return np.full((3, columns), 0.5 if same_start else 0.5 + RANK, "float32")


if KIND == "jax":
    import jax
    import jax.numpy as jnp
    import optax

    import xoe.jax as hvd

    WAYS = ("jit", "eagerly", "accumulating", "sharded")
    NAMES, CALL, ORDINAL = ("layer/weight",), "xoe.jax.broadcast_parameters", "first"

    class Training:
        def __init__(self, same_start, way, **options):
            self.params = {"layer": {"weight": jnp.asarray(first_weight(same_start)), "bias": jnp.zeros(5)}}
            make = hvd.ShardedOptimizer if way == "sharded" else hvd.DistributedOptimizer
            passes = {"backward_passes_per_step": 2} if way == "accumulating" else {}
            optimizer = make(optax.sgd(0.01), **passes, **options)
            self.state = optimizer.init(self.params)

            def loss(params, inputs):
                return ((inputs @ params["layer"]["weight"] + params["layer"]["bias"]) ** 2).sum()

            def step(params, state, inputs):
                updates, state = optimizer.update(jax.grad(loss)(params, inputs), state, params)
                return optax.apply_updates(params, updates), state

            self.compiled = step if way == "eagerly" else jax.jit(step, donate_argnums=(0, 1))

        def step(self, inputs):
            self.params, self.state = self.compiled(self.params, self.state, inputs)
            jax.block_until_ready(self.params)

        def start_apart(self):
            self.params["layer"]["weight"] = jnp.asarray(first_weight(False))

elif KIND == "tensorflow":
    import keras
    import tensorflow as tf

    import xoe.tensorflow as hvd

    WAYS = ("in a function", "eagerly", "optimizer", "fp16", "grouped", "compiled")
    NAMES, CALL, ORDINAL = ("weight",), "xoe.tensorflow.broadcast_variables", "second"

    class Training:
        made = 5  # columns: tapes are told apart by the shapes of gradients

        def __init__(self, same_start, way, **options):
            Training.made += 1
            self.weight = tf.Variable(first_weight(same_start, Training.made), name="weight")
            self.bias = tf.Variable(tf.zeros(Training.made), name="bias")
            self.variables = [self.weight, self.bias]
            if way == "fp16":
                options["compression"] = hvd.Compression.fp16
            if way == "grouped":  # two operations
                options["groups"] = 2
            plain = keras.optimizers.SGD(0.01)
            plain.build(self.variables)
            optimizer = hvd.DistributedOptimizer(plain, **options) if way == "optimizer" else plain

            def step(inputs):
                with tf.GradientTape() as tape:
                    loss = tf.reduce_sum((inputs @ self.weight + self.bias) ** 2)
                if way != "optimizer":
                    tape = hvd.DistributedGradientTape(tape, **options)
                optimizer.apply_gradients(zip(tape.gradient(loss, self.variables), self.variables, strict=True))

            self.compiled = step if way == "eagerly" else tf.function(step, jit_compile=way == "compiled")

        def step(self, inputs):
            self.compiled(tf.constant(inputs))

        def broadcast(self):
            hvd.broadcast_variables(self.variables, 0)

        def start_apart(self):
            self.weight.assign(first_weight(False, Training.made))

elif KIND == "keras":
    import xoe.keras as hvd
    from xoe.keras.versions import keras

    WAYS = ("fit", "compiled") if ON_TENSORFLOW and not os.environ.get("TF_USE_LEGACY_KERAS") else ("fit",)
    NAMES, CALL, ORDINAL = ("dense",), "BroadcastGlobalVariablesCallback(0)", "second"

    class Training:
        def __init__(self, same_start, way, **options):
            keras.utils.set_random_seed(7)
            self.model = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(5)])
            self.model.set_weights([first_weight(same_start), np.zeros(5, "float32")])
            optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.01), **options)
            more = {"jit_compile": True} if way == "compiled" else {}
            self.model.compile(optimizer=optimizer, loss="mse", **more)
            self.callbacks = []

        def run(self, batches):
            """One call of fit() for all."""
            inputs = np.concatenate(batches)
            targets = np.ones((len(inputs), 5), "float32")
            self.model.fit(inputs, targets, batch_size=len(batches[0]), shuffle=False, verbose=0, callbacks=self.callbacks)

        def broadcast(self):
            self.callbacks = [hvd.callbacks.BroadcastGlobalVariablesCallback(0)]

        def start_apart(self):
            self.model.set_weights([first_weight(False), np.zeros(5, "float32")])

elif KIND == "mxnet":
    import mxnet as mx

    import xoe.mxnet as hvd

    WAYS = ("trainer", "fp16")
    NAMES, CALL, ORDINAL = ("weight",), "xoe.mxnet.broadcast_parameters", "first"

    class Training:
        def __init__(self, same_start, way, **options):
            self.net = mx.gluon.nn.Dense(5, in_units=3)
            self.net.initialize()
            self.net.weight.set_data(mx.nd.array(first_weight(same_start).T))
            if way == "fp16":
                options["compression"] = hvd.Compression.fp16
            self.trainer = hvd.DistributedTrainer(self.net.collect_params(), "sgd", {"learning_rate": 0.01}, **options)

        def step(self, inputs):
            with mx.autograd.record():
                loss = (self.net(mx.nd.array(inputs)) ** 2).sum()
            loss.backward()
            self.trainer.step(len(inputs))

        def start_apart(self):
            self.net.weight.set_data(mx.nd.array(first_weight(False).T))


hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()


@contextlib.contextmanager
def warned():
    said = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield said
    found = [one for one in caught if one.category is FirstStepWarning]
    assert all(one.filename == __file__ for one in found), [one.filename for one in found]
    said += [str(one.message) for one in found]


def run(training, same_batches=False, steps=STEPS, rows=4):
    batches = [batch(step, same_batches, rows(step) if callable(rows) else rows) for step in range(steps)]
    if hasattr(training, "run"):
        training.run(batches)
        return
    for inputs in batches:
        training.step(inputs)


def said_in(way=None, same_start=True, same_batches=False, rows=4, **options):
    """The warnings of a small training. Without options ranks have the same parameters and batches of their own."""
    training = Training(same_start, way or WAYS[0], **options)
    with warned() as said:
        run(training, same_batches, rows=rows)
    return said


def expect_on_first(said, *words):
    if RANK != 0 or SIZE == 1:
        assert said == [], said
        return
    assert len(said) == 1, said
    for word in words:
        assert word in said[0], (word, said[0])
    assert f"{VARIABLE}=0" in said[0], said[0]


def test_a_forgotten_broadcast_is_named_once():
    for way in WAYS:
        expect_on_first(said_in(way, same_start=False), "ranks start from different parameters: ", *NAMES, CALL)


def test_batches_that_all_ranks_share_are_named_once():
    for way in WAYS:
        expect_on_first(
            said_in(way, same_batches=True),
            f"the same gradients in the {ORDINAL} step",
            "rank()::" if KIND != "tensorflow" else ".shard(",
        )


def test_a_good_start_is_silent():
    for way in WAYS:
        assert said_in(way) == [], way


def test_a_broadcast_after_the_first_step_is_silent():
    if KIND != "tensorflow":
        return
    for way in WAYS:
        training = Training(False, way)
        with warned() as said:
            run(training, steps=1)
            training.broadcast()
            run(training)
        assert said == [], (way, said)


def test_a_callback_that_broadcasts():
    if KIND != "keras":
        return
    training = Training(False, "fit")
    training.broadcast()
    with warned() as said:
        run(training)
    assert said == [], said


def test_ranks_that_compile_different_numbers_of_times():
    if KIND == "keras":
        return  # all batches of fit() have one size
    expect_on_first(said_in(same_start=False, rows=lambda step: 4 + (step if RANK == 0 else 0)), *NAMES)


def test_later_steps_cost_no_operation():
    training = Training(True, WAYS[0])
    run(training)
    before = operations()
    run(training)
    after = operations()
    extra = 0 if SIZE == 1 and KIND != "jax" else STEPS
    assert after - before <= extra, (before, after)


def test_results_are_the_same_without_it():
    if KIND == "keras":
        return
    found = []
    for value in ("0", "1"):
        os.environ[VARIABLE] = value
        training = Training(True, WAYS[0])
        run(training)
        weight = {
            "jax": lambda one: one.params["layer"]["weight"],
            "tensorflow": lambda one: one.weight[:, :5],
            "mxnet": lambda one: one.net.weight.data().asnumpy(),
        }[KIND](training)
        found.append(np.asarray(weight))
    del os.environ[VARIABLE]
    np.testing.assert_array_equal(found[0][:, :3], found[1][:, :3])


def test_one_rank_in_a_process_set_is_alone():
    with_first = hvd.add_process_set([0])
    if RANK == 0:
        assert said_in(same_start=False, process_set=with_first) == []
    else:
        Training(True, WAYS[0])  # all ranks make as many
    hvd.remove_process_set(with_first)


def test_a_rank_without_data_is_no_copy_of_the_others():
    if KIND != "tensorflow":
        return
    if RANK < SIZE - 1 or SIZE == 1:
        said = said_in(same_batches=SIZE == 2)
        assert said == [], said
    else:
        Training(True, WAYS[0])
    hvd.join()


def test_it_can_be_left_out():
    os.environ[VARIABLE] = "0"
    try:
        for way in WAYS:
            assert said_in(way, same_start=False) == [], way
    finally:
        del os.environ[VARIABLE]


def test_one_rank_may_leave_it_out():
    if RANK == SIZE - 1:
        os.environ[VARIABLE] = "0"
    try:
        for way in WAYS:
            assert said_in(way, same_start=False) == [] or SIZE == 1
    finally:
        os.environ.pop(VARIABLE, None)


def test_a_new_world_is_looked_at_again():
    for way in WAYS[:2]:
        training = Training(True, way)
        with warned() as said:
            run(training)
        assert said == [], said
        hvd.shutdown()
        hvd.init()
        training.start_apart()
        with warned() as said:
            run(training)
        expect_on_first(said, *NAMES)


ranks.call_tests(globals())
