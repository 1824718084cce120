"""xoe.mxnet: collectives, trainers and optimizers against one process with the joined batch, failures."""

import ranks
from checks import raises

ranks.use("mxnet", "mxnet")
ranks.start(__file__, sizes=(1, 2, 3))

import mxnet as mx
import numpy as np

import xoe
import xoe.mxnet as hvd
from xoe.errors import InvalidArgumentError, MismatchError

hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()
TYPES = ("float32", "float64", "float16", "uint8", "int8", "int32", "int64")


def values(rank=RANK, dtype="float32", shape=(5, 3)):
    """What a rank gives: small numbers, exact in every type."""
    return mx.nd.array(np.random.default_rng(rank).integers(0, 4, shape), dtype=dtype)


def everyone(**options):
    return np.array([values(rank, **options).asnumpy() for rank in range(SIZE)])


def same(result, expected, dtype=None):
    assert isinstance(result, mx.nd.NDArray)
    assert dtype is None or np.dtype(result.dtype).name == dtype, (result.dtype, dtype)
    np.testing.assert_allclose(result.asnumpy(), expected, rtol=1e-6)


def test_reductions():
    for dtype in TYPES:
        same(hvd.allreduce(values(dtype=dtype), op=hvd.Sum), everyone(dtype=dtype).sum(0).astype(dtype), dtype)
    same(hvd.allreduce(values()), everyone().mean(0))
    same(hvd.allreduce(values(), average=False), everyone().sum(0))
    same(hvd.allreduce(values(), op=hvd.Max), everyone().max(0))
    same(hvd.allreduce(values(), op=hvd.Sum, prescale_factor=0.5, postscale_factor=4.0), 2 * everyone().sum(0))
    computed = values() * 2 + 1  # MXNet may not have computed it yet
    same(hvd.allreduce(computed, op=hvd.Sum), everyone().sum(0) * 2 + SIZE)
    in_place = values()
    assert hvd.allreduce_(in_place, op=hvd.Sum) is in_place
    same(in_place + 1, everyone().sum(0) + 1)
    first, second = hvd.grouped_allreduce([values(), values(dtype="int32")], op=hvd.Sum)
    same(first, everyone().sum(0))
    same(second, everyone().sum(0), "int32")


def test_scalars():
    same(hvd.allreduce(mx.nd.array(RANK + 1.0), op=hvd.Sum), SIZE * (SIZE + 1) / 2)
    same(hvd.broadcast(mx.nd.array(float(RANK)), SIZE - 1), SIZE - 1)


def test_rows_and_broadcast():
    same(hvd.allgather(values()), np.concatenate(everyone()))
    assert hvd.allgather(mx.nd.ones((RANK + 1, 2))).shape == (SIZE * (SIZE + 1) // 2, 2)
    same(hvd.reducescatter(values(), op=hvd.Sum), np.array_split(everyone().sum(0), SIZE)[RANK])
    in_order = (hvd.Sum, None, 0, hvd.global_process_set, 2.0)  # Horovod's order
    same(hvd.reducescatter(values(), *in_order), np.array_split(2 * everyone().sum(0), SIZE)[RANK])
    splits = [rank + 1 for rank in range(SIZE)]
    result, counts = hvd.alltoall(mx.nd.full((sum(splits),), RANK), splits)
    same(result, np.repeat(np.arange(SIZE), RANK + 1))
    same(counts, [RANK + 1] * SIZE)
    result, _ = hvd.alltoall(mx.nd.full((sum(splits),), RANK), mx.nd.array(splits, dtype="int32"))
    same(result, np.repeat(np.arange(SIZE), RANK + 1))
    same(hvd.broadcast(values(), SIZE - 1), values(SIZE - 1).asnumpy())
    assert hvd.broadcast_object({"rank": RANK}, 0) == {"rank": 0}


def network():
    mx.random.seed(RANK)
    net = mx.gluon.nn.Sequential()
    net.add(mx.gluon.nn.Dense(8, activation="tanh", in_units=6), mx.gluon.nn.Dense(3))  # the second one's shape comes later
    net.initialize()
    hvd.broadcast_parameters(net.collect_params())
    net(mx.nd.zeros((1, 6)))
    return net


def batch_of(step, rank):
    inputs = np.random.default_rng(100 * step + rank).normal(size=(4, 6)).astype("float32")
    return inputs, np.sin(inputs[:, :3])


def joined(step):
    parts = [batch_of(step, rank) for rank in range(SIZE)]
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


def train(make, batches, size, steps=6):
    net = network()
    trainer = make(net.collect_params())
    loss_of = mx.gluon.loss.L2Loss()
    for step in range(steps):
        inputs, targets = map(mx.nd.array, batches(step))
        with mx.autograd.record():
            loss = loss_of(net(inputs), targets)
        loss.backward()
        trainer.step(size)
    return [param.data().asnumpy() for param in net.collect_params().values()]


def test_trainer_is_one_process_with_the_joined_batch():
    options = {"learning_rate": 0.5, "momentum": 0.9}
    distributed = train(lambda params: hvd.DistributedTrainer(params, "sgd", options), lambda step: batch_of(step, RANK), 4)
    alone = train(lambda params: mx.gluon.Trainer(params, "sgd", options), lambda step: batch_of(step, RANK), 4)
    whole = train(lambda params: mx.gluon.Trainer(params, "sgd", options), joined, 4 * SIZE)
    for value, expected in zip(distributed, whole, strict=True):
        np.testing.assert_allclose(value, expected, rtol=2e-5, atol=2e-6)
    if SIZE > 1:  # the test would notice gradients that are not averaged
        assert not np.allclose(alone[0], distributed[0], rtol=1e-3)
    for kind in (hvd.Compression.fp16, hvd.Compression.none):

        def made(params, kind=kind):
            return hvd.DistributedTrainer(params, "sgd", options, compression=kind)

        for value, expected in zip(train(made, lambda step: batch_of(step, RANK), 4), whole, strict=True):
            np.testing.assert_allclose(value, expected, rtol=0.05, atol=0.02)


def test_compression_leaves_integers():
    given = mx.nd.full((3,), 100001, dtype="int32")
    sent, context = hvd.Compression.fp16.compress(given)
    same(hvd.Compression.fp16.decompress(sent, context), np.full(3, 100001), "int32")


def test_a_list_of_parameters():
    net = network()
    trainer = hvd.DistributedTrainer(list(net.collect_params().values()), "sgd", {"learning_rate": 0.1})
    with mx.autograd.record():
        loss = net(mx.nd.ones((2, 6))).sum()
    loss.backward()
    trainer.step(2)


def test_optimizer():
    weight, gradient = mx.nd.ones((3,)), mx.nd.full((3,), RANK + 1)
    optimizer = hvd.DistributedOptimizer(mx.optimizer.SGD(learning_rate=1.0, wd=0.0))
    optimizer.update(0, weight, gradient, optimizer.create_state(0, weight))
    same(weight, np.full(3, 1 - (SIZE + 1) / 2))


def test_gradients_are_reduced_once_a_step():
    def lines():
        return sum(
            float(line.rsplit(" ", 1)[1]) for line in xoe.metrics().splitlines() if line.startswith("xoe_operations_total")
        )

    net = network()
    trainer = hvd.DistributedTrainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    before = lines()
    for _ in range(3):
        with mx.autograd.record():
            loss = net(mx.nd.ones((2, 6))).sum()
        loss.backward()
        trainer.step(2)
    assert lines() - before == (4 if SIZE > 1 else 0)  # one looks at the first step


def test_errors():
    raises(TypeError, lambda: hvd.allreduce_(np.ones(3)), "mx.nd.array")
    raises(InvalidArgumentError, lambda: hvd.broadcast_parameters([1]), "collect_params")
    raises(InvalidArgumentError, lambda: hvd.reducescatter(mx.nd.array(1.0)), "scalar")
    raises(InvalidArgumentError, lambda: hvd.alltoall(mx.nd.ones(SIZE), mx.nd.ones(SIZE)), "one integer for each rank")
    if SIZE > 1:
        raises(MismatchError, lambda: hvd.allreduce(mx.nd.ones(4 if RANK == 0 else 5)), "rank 0", "[4]", "[5]")
    same(hvd.allreduce(mx.nd.ones(4), op=hvd.Sum), np.full(4, SIZE))


ranks.call_tests(globals())
