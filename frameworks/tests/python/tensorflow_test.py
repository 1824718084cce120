"""xoe.tensorflow: every collective eagerly and in tf.function, tape and optimizers against one process with the joined batch, and errors."""

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

import xoe.tensorflow as hvd
from xoe.errors import InvalidArgumentError, MismatchError, UnsupportedError

hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()


def test_sums_of_all_types_eagerly_and_in_graphs():
    for dtype in TYPES:
        expected = total(dtype=dtype)
        same(hvd.allreduce(values(dtype=dtype), op=hvd.Sum), expected, dtype)
        same(tf.function(lambda x: hvd.allreduce(x, op=hvd.Sum))(values(dtype=dtype)), expected, dtype)


def test_reductions():
    given = np.array(everyone())
    for op, expected in (
        (hvd.Average, given.mean(0)),
        (hvd.Min, given.min(0)),
        (hvd.Max, given.max(0)),
        (hvd.Product, given.prod(0)),
    ):
        np.testing.assert_allclose(hvd.allreduce(values(), op=op), expected, rtol=1e-6)
    scaled = hvd.allreduce(values(), op=hvd.Sum, prescale_factor=0.5, postscale_factor=4.0)
    np.testing.assert_allclose(scaled, 2 * given.sum(0), rtol=1e-6)
    np.testing.assert_allclose(hvd.allreduce(tf.ones(8), op=hvd.Adasum), np.ones(8), rtol=1e-6)
    for compression in (hvd.Compression.fp16, hvd.Compression.bf16):
        np.testing.assert_allclose(hvd.allreduce(values(), op=hvd.Sum, compression=compression), given.sum(0), rtol=1e-2)
    mixed = [values(), values(dtype=tf.bfloat16), values(dtype=tf.int32)]
    for tensor in hvd.grouped_allreduce(mixed, op=hvd.Sum, compression=hvd.Compression.bf16):
        np.testing.assert_allclose(tf.cast(tensor, tf.float32), given.sum(0), rtol=1e-2)
    grouped = hvd.grouped_allreduce([values(), values(dtype=tf.int32)], op=hvd.Sum)
    same(grouped[0], total())
    same(grouped[1], total(dtype=tf.int32))


def test_rows():
    gathered = np.concatenate(everyone())
    same(hvd.allgather(values()), gathered)
    same(tf.function(hvd.allgather)(values()), gathered)
    assert hvd.allgather(values(shape=(RANK + 1, 2))).shape == (SIZE * (SIZE + 1) // 2, 2)
    assert hvd.allgather(tf.zeros((0, 2)) if RANK == 0 else values(shape=(1, 2))).shape == (SIZE - 1, 2)
    for dtype in TYPES:
        same(hvd.allgather(values(dtype=dtype)), np.concatenate(everyone(dtype=dtype)), dtype)
    same(hvd.reducescatter(values(), op=hvd.Sum), np.array_split(total(), SIZE)[RANK])
    splits = tf.constant([rank + 1 for rank in range(SIZE)])
    given = tf.fill([int(tf.reduce_sum(splits))], float(RANK))
    for call in (hvd.alltoall, tf.function(hvd.alltoall)):
        result, counts = call(given, splits)
        same(result, np.repeat(np.arange(SIZE), RANK + 1))
        same(counts, [RANK + 1] * SIZE, tf.int32)
    same(hvd.alltoall(tf.range(SIZE) + 10 * RANK), [10 * rank + RANK for rank in range(SIZE)])


def test_broadcast():
    root = SIZE - 1
    same(hvd.broadcast(values(), root), values(root))
    variables = [tf.Variable(values()), tf.Variable(values(dtype=tf.int32))]
    hvd.broadcast_variables(variables, root)
    same(variables[0], values(root))
    same(variables[1], values(root, dtype=tf.int32))
    assert hvd.broadcast_object({"rank": RANK}, root) == {"rank": root}


def test_process_sets():
    if SIZE < 3:
        return
    pair = hvd.add_process_set([0, 2])
    if RANK in (0, 2):
        same(tf.function(lambda x: hvd.allreduce(x, op=hvd.Sum, process_set=pair))(values()), values(0) + values(2))
    else:
        raises(InvalidArgumentError, lambda: hvd.allreduce(values(), process_set=pair), "rank 1 is not in")
    hvd.barrier()
    hvd.remove_process_set(pair)


def test_gradients():
    x = tf.Variable(values() + 1)
    weight = float(RANK + 1)
    weights = SIZE * (SIZE + 1) / 2

    def gradient_of(function):
        with tf.GradientTape() as tape:
            loss = function()
        return tape.gradient(loss, x)

    sums = gradient_of(lambda: tf.reduce_sum(hvd.allreduce(x, op=hvd.Sum) ** 2))
    np.testing.assert_allclose(sums, 2 * SIZE * (total() + SIZE), rtol=1e-6)

    def mean_in_graph():
        return gradient_of(lambda: tf.reduce_sum(hvd.allreduce(x) ** 2))

    means = tf.function(mean_in_graph)()
    np.testing.assert_allclose(means, 2 * (total() + SIZE) / SIZE, rtol=1e-6)

    def gathered_gradient():
        return gradient_of(lambda: weight * tf.reduce_sum(hvd.allgather(x)))

    for call in (gathered_gradient, tf.function(gathered_gradient)):
        gathered = call()
        np.testing.assert_allclose(gathered, np.full(x.shape, weights / SIZE), rtol=1e-6)
    from_root = gradient_of(lambda: weight * tf.reduce_sum(hvd.broadcast(x, 0)))
    np.testing.assert_allclose(from_root, np.full(x.shape, weights / SIZE if RANK == 0 else 0.0), rtol=1e-6)
    scattered = gradient_of(lambda: weight * tf.reduce_sum(hvd.reducescatter(x, op=hvd.Sum)))
    rows = [len(part) for part in np.array_split(np.arange(5), SIZE)]
    np.testing.assert_allclose(scattered, SIZE * np.repeat(np.arange(1, SIZE + 1), rows)[:, None] * np.ones(3), rtol=1e-6)
    splits = [1] * (SIZE - 1) + [5 - SIZE + 1]  # row r goes to rank r, the rest to the last
    there = gradient_of(lambda: weight * tf.reduce_sum(hvd.alltoall(x, splits)[0]))
    np.testing.assert_allclose(there, np.repeat(np.arange(1, SIZE + 1), splits)[:, None] * np.ones(3), rtol=1e-6)
    raises(UnsupportedError, lambda: gradient_of(lambda: tf.reduce_sum(hvd.allreduce(x, op=hvd.Max))), "op=Max has no gradient")


def test_loops_in_graphs():
    @tf.function
    def loop(x):
        for _ in tf.range(4):
            x = hvd.allreduce(x, op=hvd.Sum)
        return x

    np.testing.assert_allclose(loop(tf.ones(3)), np.full(3, SIZE**4), rtol=1e-6)


# ---- A network that learns from all ranks' batches must be the one that learns from the joined batch.


def network():
    generator = np.random.default_rng(0)
    return [tf.Variable(generator.normal(size=shape).astype("float32") * 0.3) for shape in ((6, 8), (8, 3))]


def table_of():
    return tf.Variable(np.random.default_rng(1).normal(size=(9, 6)).astype("float32"))


def batch_of(step, rank):
    generator = np.random.default_rng(100 * step + rank)
    return generator.integers(0, 9, 4), generator.normal(size=(4, 3)).astype("float32")


def joined(step):
    parts = [batch_of(step, rank) for rank in range(SIZE)]
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


def loss_of(variables, table, batch):
    return tf.reduce_mean((tf.tanh(tf.gather(table, batch[0]) @ variables[0]) @ variables[1] - batch[1]) ** 2)


def train(batches, wrap=lambda tape: tape, in_graph=True, steps=5):
    variables, table = network(), table_of()
    optimizer = keras.optimizers.SGD(0.1, momentum=0.9)

    def step(words, targets):
        with wrap(tf.GradientTape()) as tape:
            loss = loss_of(variables, table, (words, targets))
        every = [*variables, table]
        gradients = [tf.convert_to_tensor(gradient) for gradient in tape.gradient(loss, every)]
        optimizer.apply_gradients(zip(gradients, every, strict=True))

    run = tf.function(step) if in_graph else step
    for number in range(steps):
        run(*map(tf.constant, batches(number)))
    return [variable.numpy() for variable in [*variables, table]]


def test_tape_is_one_process_with_the_joined_batch():
    expected = train(joined)
    alone = train(lambda step: batch_of(step, RANK))
    for in_graph in (False, True):
        for options in ({}, {"sparse_as_dense": True}, {"groups": 2}, {"gradient_predivide_factor": 2.0}):

            def wrap(tape, options=options):
                return hvd.DistributedGradientTape(tape, **options)

            distributed = train(lambda step: batch_of(step, RANK), wrap, in_graph)
            for value, other in zip(distributed, expected, strict=True):
                np.testing.assert_allclose(value, other, rtol=2e-5, atol=2e-6)
            for value in distributed:
                for other in hvd.allgather(value[None]):
                    np.testing.assert_array_equal(other, value)
    if SIZE > 1:  # the test would notice gradients that are not averaged
        assert not np.allclose(alone[0], expected[0], rtol=1e-3)


def test_gradients_are_reduced():
    if SIZE == 1:
        return
    variables = network()
    before = operations()
    with hvd.DistributedGradientTape(tf.GradientTape()) as tape:
        loss = sum(tf.reduce_sum(variable) for variable in variables) * (RANK + 1)
    gradients = tape.gradient(loss, {"a": variables[0], "b": variables[1], "none": tf.Variable(1.0)})
    assert operations() - before == 1
    np.testing.assert_allclose(gradients["b"], np.full((8, 3), (SIZE + 1) / 2), rtol=1e-6)
    assert gradients["none"] is None
    empty = hvd.DistributedGradientTape(tf.GradientTape(), groups=2)
    with empty:
        loss = tf.constant(1.0)
    assert empty.gradient(loss, variables) == [None, None]
    local = hvd.DistributedGradientTape(tf.GradientTape())
    local.register_local_var(variables[0])
    with local:
        loss = sum(tf.reduce_sum(variable) for variable in variables) * (RANK + 1)
    own, mean = local.gradient(loss, variables)
    np.testing.assert_allclose(own, np.full((6, 8), (RANK + 1) / SIZE), rtol=1e-6)
    np.testing.assert_allclose(mean, np.full((8, 3), (SIZE + 1) / 2), rtol=1e-6)


def test_graphs_of_tensorflow_1():
    own, first = values().numpy(), values(0).numpy()
    with tf.Graph().as_default():
        variable = tf.compat.v1.get_variable("v", initializer=tf.constant(own))
        optimizer = hvd.DistributedOptimizer(tf.compat.v1.train.GradientDescentOptimizer(1.0))
        step = optimizer.minimize(tf.reduce_sum(variable) * (RANK + 1))
        hook = hvd.BroadcastGlobalVariablesHook(0)
        with tf.compat.v1.train.MonitoredTrainingSession(hooks=[hook]) as session:
            same(session.run(variable), first)
            session.run(step)
            np.testing.assert_allclose(session.run(variable), first - (SIZE + 1) / 2, rtol=1e-6)


def test_shapes_of_tensorflow_1():
    """With tf.compat.v1.disable_v2_behavior(), or disable_v2_tensorshape(), the sizes in a shape are objects."""
    tf.compat.v1.disable_v2_tensorshape()
    try:
        test_graphs_of_tensorflow_1()
        traced = tf.function(
            lambda splits: hvd.alltoall(tf.range(SIZE), splits), input_signature=[tf.TensorSpec([None], tf.int32)]
        )
        received, counts = traced(tf.ones([SIZE], tf.int32))
        same(received, np.full(SIZE, RANK))
        same(counts, np.ones(SIZE))
        raises(
            InvalidArgumentError, lambda: hvd.alltoall(tf.range(SIZE), tf.ones([SIZE + 1], tf.int32)), "one integer for each"
        )
    finally:
        tf.compat.v1.enable_v2_tensorshape()


def test_batch_normalization_over_all_ranks():
    inputs = [np.random.default_rng(rank).normal(rank, 2.0, size=(rank + 2, 4)).astype("float32") for rank in range(SIZE)]
    whole = np.concatenate(inputs)
    layer = hvd.SyncBatchNormalization(momentum=0.0, epsilon=1e-6)
    result = tf.function(lambda x: layer(x, training=True))(inputs[RANK])
    expected = (inputs[RANK] - whole.mean(0)) / np.sqrt(whole.var(0) + 1e-6)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(layer.moving_mean, whole.mean(0), rtol=1e-4, atol=1e-5)


def test_join():
    if SIZE == 1:
        return
    for _ in range(RANK + 1):
        hvd.allreduce(tf.ones(3), op=hvd.Sum, name="uneven")
    assert hvd.join() in range(SIZE)


# ---- Errors


def test_ranks_that_disagree_are_told():
    if SIZE == 1:
        return
    shape = (4,) if RANK == 0 else (5,)
    raises(tf.errors.FailedPreconditionError, lambda: hvd.allreduce(tf.ones(shape)), "rank 0", "[4]", "[5]")
    raises(tf.errors.FailedPreconditionError, lambda: tf.function(hvd.allreduce)(tf.ones(shape)), "rank 0", "[4]", "[5]")
    try:
        with hvd.typed_errors():
            hvd.allreduce(tf.ones(shape))
    except MismatchError:
        pass
    else:
        raise AssertionError("no MismatchError")
    same(hvd.allreduce(tf.ones(4), op=hvd.Sum), np.full(4, SIZE))  # and the ranks go on


def test_wrong_calls():
    raises(UnsupportedError, lambda: hvd.allreduce(tf.constant(["text"])), "string")
    raises(UnsupportedError, lambda: hvd.allreduce(tf.ones(2, tf.uint16), op=hvd.Min), "Min of uint16")
    raises(InvalidArgumentError, lambda: hvd.alltoall(tf.ones(SIZE), [1.0] * SIZE), "integer")
    raises(InvalidArgumentError, lambda: hvd.alltoall(tf.ones(SIZE), SIZE), "one integer for each")
    raises(InvalidArgumentError, lambda: hvd.alltoall(tf.ones(SIZE), tf.zeros([0], tf.int32)), "one integer for each")
    raises(tf.errors.InvalidArgumentError, lambda: hvd.allgather(tf.constant(1.0)), "xoe")


ranks.call_tests(globals())
