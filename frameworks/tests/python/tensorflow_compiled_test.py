"""xoe.tensorflow in programs that XLA compiles: each collective and its gradient, training with a tape and with Keras's fit, and errors."""

import os

import ranks
from checks import operations, raises

ranks.use("frameworks", "tensorflow")
ranks.start(__file__, sizes=(1, 2, 3))

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf
from tensorflow_values import TYPES, everyone, same, total, values

import xoe.keras
import xoe.tensorflow as hvd
from xoe.errors import InvalidArgumentError, MismatchError, UnsupportedError
from xoe.tensorflow.compiled import is_compiled

hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()


def compiled(function):
    return tf.function(function, jit_compile=True)


def as_it_is(function):
    """Compiled without AutoGraph, which makes a StagingError with the same text of each exception that it does not know."""
    return tf.function(function, jit_compile=True, autograph=False)


def test_sums_of_all_types():
    for dtype in TYPES:
        same(compiled(lambda x: hvd.allreduce(x, op=hvd.Sum))(values(dtype=dtype)), total(dtype=dtype), dtype)


def test_reductions_among_other_arithmetic():
    given = np.array(everyone())
    for op, expected in (
        (hvd.Average, given.mean(0)),
        (hvd.Min, given.min(0)),
        (hvd.Max, given.max(0)),
        (hvd.Product, given.prod(0)),
    ):
        result = compiled(lambda x, op=op: 3 * hvd.allreduce(x / 2, op=op) + 1)(values())
        factor = 0.5**SIZE if op == hvd.Product else 0.5
        np.testing.assert_allclose(result, 3 * expected * factor + 1, rtol=1e-6)
    for scale in (1e-5, 0.1, 3.0):
        scaled = compiled(lambda x, scale=scale: hvd.allreduce(x, op=hvd.Sum, prescale_factor=scale, postscale_factor=4.0))(
            values()
        )
        np.testing.assert_allclose(scaled, 4 * scale * given.sum(0), rtol=1e-6)
    np.testing.assert_allclose(compiled(lambda x: hvd.allreduce(x, op=hvd.Adasum))(tf.ones(8)), np.ones(8), rtol=1e-6)
    halves = compiled(lambda x: hvd.allreduce(x, op=hvd.Sum, compression=hvd.Compression.fp16))(values())
    np.testing.assert_allclose(halves, given.sum(0), rtol=1e-2)


def test_a_group_is_one_operation_and_ranks_hand_over_what_they_have_at_that_time():
    before = operations()
    sums, counts, scalar = compiled(lambda x, y, z: hvd.grouped_allreduce([x, y, z], op=hvd.Sum))(
        values(), values(dtype=tf.int32), tf.constant(2.0)
    )
    assert operations() - before == 1
    same(sums, total())
    same(counts, total(dtype=tf.int32), tf.int32)
    same(scalar, 2.0 * SIZE)


def test_rows():
    same(compiled(hvd.allgather)(values()), np.concatenate(everyone()))
    parts = np.array_split(total(), SIZE)
    same(compiled(lambda x: hvd.reducescatter(x, op=hvd.Sum))(values()), parts[RANK])
    uneven = compiled(lambda x: hvd.reducescatter(x, op=hvd.Sum))(values(shape=(7, 2)))
    same(uneven, np.array_split(total(shape=(7, 2)), SIZE)[RANK])
    same(compiled(hvd.alltoall)(tf.range(SIZE) + 10 * RANK), [10 * rank + RANK for rank in range(SIZE)])


def test_broadcast():
    root = SIZE - 1
    variable = tf.Variable(values())

    @compiled
    def from_root():
        variable.assign(hvd.broadcast(variable, root) + 1)
        return hvd.broadcast(values(dtype=tf.int32), root)

    same(from_root(), values(root, dtype=tf.int32))
    same(variable, values(root) + 1)


def test_process_sets():
    if SIZE < 3:
        return
    pair = hvd.add_process_set([0, 2])
    if RANK in (0, 2):
        same(compiled(lambda x: hvd.allreduce(x, op=hvd.Sum, process_set=pair))(values()), values(0) + values(2))
    else:
        raises(
            InvalidArgumentError, lambda: as_it_is(lambda x: hvd.allreduce(x, process_set=pair))(values()), "rank 1 is not in"
        )
    hvd.barrier()
    hvd.remove_process_set(pair)


def test_gradients_are_those_of_programs_that_are_not_compiled():
    x = values(shape=(6, 3)) + 1
    weight = float(RANK + 1)
    for collective in (
        lambda x: hvd.allreduce(x, op=hvd.Sum),
        lambda x: hvd.allreduce(x, prescale_factor=0.5, postscale_factor=3.0),
        lambda x: hvd.allgather(x),
        lambda x: hvd.broadcast(x, SIZE - 1),
        lambda x: hvd.reducescatter(x, op=hvd.Sum),
        lambda x: hvd.reducescatter(x),
        lambda x: hvd.alltoall(x),
        lambda x: hvd.allreduce(hvd.allreduce(x, op=hvd.Sum) ** 2),
    ):

        def gradient(x, collective=collective):
            with tf.GradientTape() as tape:
                tape.watch(x)
                loss = weight * tf.reduce_sum(collective(x) ** 2)
            return tape.gradient(loss, x)

        np.testing.assert_allclose(compiled(gradient)(x), tf.function(gradient)(x), rtol=1e-6)

    def of_largest(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(hvd.allreduce(x, op=hvd.Max))
        return tape.gradient(loss, x)

    raises(UnsupportedError, lambda: as_it_is(of_largest)(x), "op=Max has no gradient")


def test_control_flow():
    @compiled
    def loop(x):
        for _ in tf.range(4):
            x = hvd.allreduce(x, op=hvd.Sum)
        if tf.reduce_sum(x) > 0:
            x = -hvd.allreduce(x, op=hvd.Average)
        return x

    same(loop(tf.ones(3)), np.full(3, -float(SIZE**4)))


def test_collectives_of_loops_branches_and_functions_keep_their_order():
    """No data connect them, and they have one name: another order on a rank would add up the wrong ones."""
    inner = tf.function(lambda x: hvd.allreduce(x, op=hvd.Sum))

    @compiled
    def program(a, b, c):
        first = hvd.allreduce(a, op=hvd.Sum)
        for _ in tf.range(3):
            b = hvd.allreduce(b, op=hvd.Sum)
        second = inner(c) + inner(10 * c) if c[0, 0] >= 0 else c
        return first, b, second, hvd.allreduce(100 * a, op=hvd.Sum)

    a, b, c = (values(seed=seed) for seed in (1, 2, 3))
    for _ in range(5):
        first, looped, second, last = program(a, b, c)
        same(first, total(seed=1))
        same(looped, SIZE**2 * total(seed=2))
        same(second, 11 * total(seed=3))
        same(last, 100 * total(seed=1))


def test_gradients_through_loops():
    @compiled
    def gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x
            for _ in tf.range(2):
                y = hvd.allreduce(y * y)
            loss = tf.reduce_sum(y)
        return tape.gradient(loss, x)

    squares = np.mean(np.array(everyone()) ** 2, axis=0)
    np.testing.assert_allclose(gradient(values()), 4 * values().numpy() * squares, rtol=1e-6)


def test_many_independent_collectives_run_in_one_order():
    """A wrong order would block: each waits for the other ranks."""
    shapes = [(1 + (7 * index) % 50, 1 + index % 3) for index in range(40)]

    @compiled
    def many(*tensors):
        return [hvd.allreduce(tensor, op=hvd.Sum) * (index + 1) for index, tensor in enumerate(tensors)]

    for _ in range(5):
        results = many(*(values(shape=shape, seed=index) for index, shape in enumerate(shapes)))
        for index, (shape, result) in enumerate(zip(shapes, results, strict=True)):
            same(result, (index + 1) * total(shape=shape, seed=index))


def test_functions_inside_of_others():
    seen = []
    inner = tf.function(lambda x: (seen.append(is_compiled()), hvd.allreduce(x, op=hvd.Sum))[1])
    for outer in (compiled(lambda x: inner(x) + 0), inner, tf.function(lambda x: inner(x) + 0)):
        same(outer(values()), total())
    same(tf.function(lambda x: hvd.allreduce(x, op=hvd.Sum))(values()), total())
    assert seen == [True]  # TensorFlow keeps a function as it was traced first
    assert not is_compiled()


# ---- Training


def batches(rank):
    generator = np.random.default_rng(rank)
    return generator.normal(size=(5, 4, 6)).astype("float32"), generator.normal(size=(5, 4, 3)).astype("float32")


def train(inputs, targets, wrap=lambda tape: tape, jit_compile=True):
    generator = np.random.default_rng(0)
    variables = [tf.Variable(generator.normal(size=shape).astype("float32") * 0.3) for shape in ((6, 8), (8, 3))]
    optimizer = keras.optimizers.SGD(0.1, momentum=0.9)

    @tf.function(jit_compile=jit_compile)
    def step(x, y):
        with wrap(tf.GradientTape()) as tape:
            loss = tf.reduce_mean((tf.tanh(x @ variables[0]) @ variables[1] - y) ** 2)
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))

    for x, y in zip(inputs, targets, strict=True):
        step(tf.constant(x), tf.constant(y))
    return [variable.numpy() for variable in variables]


def test_a_tape_is_one_process_with_the_joined_batch():
    every = [batches(rank) for rank in range(SIZE)]
    expected = train(*(np.concatenate([one[part] for one in every], axis=1) for part in (0, 1)))
    alone = train(*batches(RANK))
    for options in ({}, {"groups": 2}, {"gradient_predivide_factor": 2.0}):
        distributed = train(*batches(RANK), lambda tape, options=options: hvd.DistributedGradientTape(tape, **options))
        for value, other in zip(distributed, expected, strict=True):
            np.testing.assert_allclose(value, other, rtol=2e-5, atol=2e-6)
            for gathered in hvd.allgather(value[None]):
                same(gathered, value)
    if SIZE > 1:  # the test would notice gradients that are not averaged
        assert not np.allclose(alone[0], expected[0], rtol=1e-3)


def test_fit_of_keras_with_a_compiled_step():
    generator = np.random.default_rng(0)
    inputs = generator.normal(size=(96, 10)).astype("float32")
    labels = (inputs @ generator.normal(size=(10, 3))).argmax(1)

    def fitted(wrap, data, batch, jit_compile, callbacks):
        keras.utils.set_random_seed(RANK if callbacks else 0)
        model = keras.Sequential([keras.layers.Input((10,)), keras.layers.Dense(16, activation="tanh"), keras.layers.Dense(3)])
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(optimizer=wrap(keras.optimizers.Adam(0.02)), loss=loss, metrics=["accuracy"], jit_compile=jit_compile)
        history = model.fit(*data, batch_size=batch, epochs=3, shuffle=False, verbose=0, callbacks=callbacks)
        return model.get_weights(), history.history["loss"]

    order = np.arange(96).reshape(-1, 12)[:, RANK::SIZE].ravel()
    expected, _ = fitted(lambda plain: plain, (inputs, labels), 12, False, [])
    callbacks = [xoe.keras.callbacks.BroadcastGlobalVariablesCallback(0), xoe.keras.callbacks.MetricAverageCallback()]
    before = operations()
    weights, losses = fitted(xoe.keras.DistributedOptimizer, (inputs[order], labels[order]), 12 // SIZE, True, callbacks)
    assert SIZE == 1 or operations() - before > 20
    for value, other in zip(weights, expected, strict=True):
        np.testing.assert_allclose(value, other, rtol=2e-3, atol=2e-4)
    assert losses[-1] < losses[0]


# ---- Errors


def test_ranks_that_disagree_are_told():
    if SIZE == 1:
        return
    shape = (4,) if RANK == 0 else (5,)
    raises(tf.errors.InvalidArgumentError, lambda: compiled(hvd.allreduce)(tf.ones(shape)), "rank 0", "[4]", "[5]")
    raises(
        tf.errors.InvalidArgumentError,
        lambda: compiled(hvd.allgather)(tf.ones((1 + (RANK > 0), 2))),
        "all ranks must give the same",
    )
    with hvd.typed_errors():
        raises(MismatchError, lambda: _typed(lambda: compiled(hvd.allreduce)(tf.ones(shape))), "rank 0")
    same(compiled(lambda x: hvd.allreduce(x, op=hvd.Sum))(tf.ones(4)), np.full(4, SIZE))  # and the ranks go on


def _typed(call):
    with hvd.typed_errors():
        call()


def test_what_a_compiled_program_cannot_know():
    open_shape = tf.function(hvd.allreduce, jit_compile=True, autograph=False, input_signature=[tf.TensorSpec([None, 3])])
    raises(UnsupportedError, lambda: open_shape(tf.ones((2, 3))), "jit_compile=True", "(None, 3)", "tf.ensure_shape")
    given = tf.range(SIZE)
    raises(UnsupportedError, lambda: as_it_is(hvd.alltoall)(given, [1] * SIZE), "splits", "jit_compile=True")
    raises(UnsupportedError, lambda: as_it_is(hvd.allgather)(tf.constant(1.0)), "a scalar has none")
    raises(UnsupportedError, lambda: as_it_is(hvd.allreduce)(tf.constant(["text"])), "string")
    if SIZE > 1:
        raises(UnsupportedError, lambda: as_it_is(hvd.alltoall)(tf.ones(SIZE + 1)), "divide evenly")

        def uneven(x):
            with tf.GradientTape() as tape:
                tape.watch(x)
                loss = tf.reduce_sum(hvd.reducescatter(x, op=hvd.Sum))
            return tape.gradient(loss, x)

        raises(UnsupportedError, lambda: as_it_is(uneven)(tf.ones((SIZE + 1, 2))), "reducescatter", "divide evenly")


def test_names_of_any_characters():
    for name in ('a "quoted" \\ name', "đường/é\n", "%out#0"):
        same(compiled(lambda x, name=name: hvd.allreduce(x, op=hvd.Sum, name=name))(tf.ones(2)), np.full(2, SIZE))


ranks.call_tests(globals())
