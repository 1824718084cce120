"""xoe.jax: every collective in the ways JAX calls functions, optimizers against one process with the joined batch, and errors."""

import checks
import ranks

ranks.use("frameworks", "jax")
ranks.start(__file__, sizes=(1, 2, 3))

import jax
import jax.numpy as jnp
import numpy as np
import optax

import xoe.jax as hvd
from xoe.errors import InvalidArgumentError, MismatchError, UnsupportedError
from xoe.jax import primitive

hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()
FIRST_STEP = 1 if SIZE > 1 else 0  # the operation of an optimizer that compares the ranks
TYPES = ("float32", "float16", "bfloat16", "uint8", "int8", "int16", "int32", "uint16", "uint32", "bool", "complex64")


def values(rank=RANK, dtype="float32", shape=(5, 3), seed=0):
    """What a rank gives: small numbers, exact in every type."""
    generator = np.random.default_rng(1000 * seed + rank)
    return jnp.asarray(generator.integers(0, 4, shape)).astype(dtype)


def everyone(**options):
    return [values(rank, **options) for rank in range(SIZE)]


def total(**options):
    """The sum of all ranks' values, as the type has it."""
    dtype = options.get("dtype", "float32")
    given = [np.asarray(one.astype("float32" if dtype == "bfloat16" else dtype)) for one in everyone(**options)]
    return np.any(given, axis=0) if dtype == "bool" else np.sum(given, axis=0).astype(given[0].dtype)


def same(result, expected, dtype=None):
    assert dtype is None or result.dtype == dtype, (result.dtype, dtype)
    result = np.asarray(result.astype("float32") if result.dtype == "bfloat16" else result)
    np.testing.assert_array_equal(result, np.asarray(expected))


def raises(kind, call, *words):
    def call_to_its_end():
        jax.block_until_ready(call())
        jax.effects_barrier()

    checks.raises(kind, call_to_its_end, *words)


def test_sums_of_all_types_inside_and_outside_of_jit():
    for dtype in TYPES:
        expected = total(dtype=dtype)
        same(hvd.allreduce(values(dtype=dtype), hvd.Sum), expected, dtype)
        same(jax.jit(lambda x: hvd.allreduce(x, hvd.Sum))(values(dtype=dtype)), expected, dtype)


def test_reductions():
    given = np.array([np.asarray(one) for one in everyone()])
    for op, expected in (
        (hvd.Average, given.mean(0)),
        (hvd.Min, given.min(0)),
        (hvd.Max, given.max(0)),
        (hvd.Product, given.prod(0)),
    ):
        np.testing.assert_allclose(jax.jit(lambda x, op=op: hvd.allreduce(x, op))(values()), expected, rtol=1e-6)
    scaled = hvd.allreduce(values(), hvd.Sum, prescale_factor=0.5, postscale_factor=4.0)
    np.testing.assert_allclose(scaled, 2 * given.sum(0), rtol=1e-6)
    adasum = hvd.allreduce(jnp.ones(8), hvd.Adasum)  # of equal vectors: that vector
    np.testing.assert_allclose(adasum, np.ones(8), rtol=1e-6)


def test_compression():
    given = np.array([np.asarray(one) for one in everyone()])  # small integers survive it
    for name in ("float16", "bfloat16"):
        np.testing.assert_allclose(hvd.allreduce(values(), hvd.Sum, compression=name), given.sum(0), rtol=1e-2)
    raises(InvalidArgumentError, lambda: hvd.allreduce(values(), compression="zip"), "zip", "bfloat16")
    tree = {"a": values(), "b": values(dtype="float16"), "c": values(dtype="int32")}
    for options in ({"compression": "bfloat16"}, {"op": hvd.Sum, "compression": "bfloat16"}):
        result = hvd.allreduce(tree, **options)
        expected = given.sum(0) if "op" in options else given.mean(0)
        np.testing.assert_allclose(result["a"], expected, rtol=1e-2)
        assert result["c"].dtype == "int32" and result["b"].dtype == "float16"


def test_trees_are_one_operation():
    before = checks.operations()
    tree = {"w": values(), "b": [values(shape=(2,), dtype="bfloat16"), jnp.float32(RANK)], "none": None}
    result = hvd.allreduce(tree, hvd.Sum)
    assert jax.tree.structure(result) == jax.tree.structure(tree)
    same(result["w"], total())
    same(result["b"][1], np.float32(sum(range(SIZE))))
    assert checks.operations() - before == 1


def test_rows():
    gathered = np.concatenate([np.asarray(one) for one in everyone()])
    same(hvd.allgather(values()), gathered)
    same(jax.jit(hvd.allgather)(values()), gathered)
    own = np.asarray(values(shape=(RANK + 1, 2)))
    uneven = hvd.allgather(own)
    assert uneven.shape == (SIZE * (SIZE + 1) // 2, 2)
    for dtype in TYPES:
        assert hvd.allgather(values(dtype=dtype)).dtype == dtype
    rows = np.array_split(total(), SIZE)[RANK]
    same(hvd.reducescatter(values(), hvd.Sum), rows)
    same(jax.jit(lambda x: hvd.reducescatter(x, hvd.Sum))(values()), rows)
    given = jnp.arange(2.0 * SIZE) + 100 * RANK
    received = np.concatenate([np.arange(2 * RANK, 2 * RANK + 2) + 100 * rank for rank in range(SIZE)])
    same(hvd.alltoall(given), received)
    same(jax.jit(hvd.alltoall)(given), received)
    splits = [rank + 1 for rank in range(SIZE)]
    result, counts = hvd.alltoall(jnp.full(sum(splits), float(RANK)), splits)
    same(result, np.repeat(np.arange(SIZE), RANK + 1))
    assert list(counts) == [RANK + 1] * SIZE


def test_broadcast():
    root = SIZE - 1
    tree = {"a": values(), "b": values(dtype="int32", seed=1)}
    result = hvd.broadcast_parameters(tree, root)
    same(result["a"], values(root))
    same(result["b"], values(root, dtype="int32", seed=1))
    key = hvd.broadcast(jax.random.key_data(jax.random.key(RANK)), 0)
    same(key, jax.random.key_data(jax.random.key(0)))


def test_process_sets():
    if SIZE < 3:
        return
    pair = hvd.add_process_set([0, 2])
    if RANK in (0, 2):
        same(jax.jit(lambda x: hvd.allreduce(x, hvd.Sum, process_set=pair))(values()), np.asarray(values(0) + values(2)))
        same(hvd.broadcast(values(), 2, process_set=pair), values(2))
    else:
        raises(InvalidArgumentError, lambda: hvd.allreduce(values(), process_set=pair), "rank 1 is not in")
    hvd.barrier()
    hvd.remove_process_set(pair)


def test_control_flow_and_batches():
    x = jnp.arange(3.0) + RANK
    mean = np.mean([np.arange(3.0) + rank for rank in range(SIZE)], axis=0)

    def body(carry, _):
        return hvd.allreduce(carry) + 1, carry

    last, _ = jax.jit(lambda start: jax.lax.scan(body, start, None, length=3))(x)
    np.testing.assert_allclose(last, mean + 3, rtol=1e-6)
    counted = jax.lax.while_loop(
        lambda state: state[0] < 2, lambda state: (state[0] + 1, hvd.allreduce(state[1], hvd.Sum)), (0, x)
    )
    np.testing.assert_allclose(counted[1], mean * SIZE * SIZE, rtol=1e-6)
    chosen = jax.lax.cond(SIZE > 0, lambda v: hvd.allreduce(v), lambda v: v, x)
    np.testing.assert_allclose(chosen, mean, rtol=1e-6)
    batch = jnp.stack([x, 2 * x, 3 * x])
    np.testing.assert_allclose(
        jax.vmap(lambda v: hvd.allreduce(v, hvd.Sum))(batch), SIZE * np.stack([mean, 2 * mean, 3 * mean]), rtol=1e-6
    )
    gathered = jax.vmap(hvd.allgather)(batch)
    assert gathered.shape == (3, 3 * SIZE)
    np.testing.assert_allclose(gathered[1].reshape(SIZE, 3).mean(0), 2 * mean, rtol=1e-6)


def test_derivatives():
    x = values().astype("float32") + 1
    sums = jax.grad(lambda v: jnp.sum(hvd.allreduce(v, hvd.Sum) ** 2))(x)
    np.testing.assert_allclose(sums, 2 * SIZE * (total() + SIZE), rtol=1e-6)
    means = jax.jit(jax.grad(lambda v: jnp.sum(hvd.allreduce(v) ** 2)))(x)
    np.testing.assert_allclose(means, 2 * (total() + SIZE) / SIZE, rtol=1e-6)
    # Each rank weighs its loss by its number: the derivative of what is gathered from a rank is the sum of all weights.
    weight = float(RANK + 1)
    weights = SIZE * (SIZE + 1) / 2
    gathered = jax.grad(lambda v: weight * jnp.sum(jax.jit(hvd.allgather)(v)))(x)
    np.testing.assert_allclose(gathered, np.full(x.shape, weights), rtol=1e-6)
    rows = jnp.ones((2 * SIZE, 2))
    scattered = jax.grad(lambda v: weight * jnp.sum(hvd.reducescatter(v, hvd.Sum)))(rows)
    np.testing.assert_allclose(scattered, np.repeat(np.arange(1, SIZE + 1), 2)[:, None] * np.ones(2), rtol=1e-6)
    from_root = jax.grad(lambda v: weight * jnp.sum(hvd.broadcast(v, 0)))(x)
    np.testing.assert_allclose(from_root, np.full(x.shape, weights if RANK == 0 else 0.0), rtol=1e-6)
    there = jax.grad(lambda v: jnp.sum(hvd.alltoall(v) * weight))(jnp.ones(SIZE))
    np.testing.assert_allclose(there, np.arange(1.0, SIZE + 1), rtol=1e-6)
    primal, tangent = jax.jvp(lambda v: hvd.allreduce(v, hvd.Sum), (x,), (jnp.ones_like(x),))
    np.testing.assert_allclose(tangent, np.full(x.shape, SIZE), rtol=1e-6)
    np.testing.assert_allclose(primal, total() + SIZE, rtol=1e-6)
    recomputed = jax.grad(jax.checkpoint(lambda v: jnp.sum(jnp.sin(hvd.allreduce(v, hvd.Sum)))))(x)
    np.testing.assert_allclose(recomputed, SIZE * np.cos(total() + SIZE), rtol=1e-5, atol=1e-6)
    raises(UnsupportedError, lambda: jax.grad(lambda v: jnp.sum(hvd.allreduce(v, hvd.Max)))(x), "op=Max has no derivative")
    with_counts = jax.grad(lambda v: jnp.sum(hvd.allreduce({"v": v, "count": jnp.arange(3)})["v"]))(x)
    np.testing.assert_allclose(with_counts, np.ones(x.shape), rtol=1e-6)


def test_calls_keep_their_order():
    """XLA may run what is independent in any order, and may delay one part of a program on one rank alone."""

    def parts(x, delay):
        for index in range(8):
            part = x + index
            for _ in range(1 + (index * 5 + delay) % 7):
                part = jnp.tanh(part @ part)
            yield part

    program = jax.jit(lambda x: [hvd.allreduce(part[:3], hvd.Sum) for part in parts(x, 3 * RANK)])
    alone = [jax.jit(lambda x, rank=rank: list(parts(x, 3 * rank))) for rank in range(SIZE)]
    inputs = [jnp.full((64, 64), 0.001 * (rank + 1)) for rank in range(SIZE)]
    expected = np.sum([[np.asarray(part)[:3] for part in alone[rank](inputs[rank])] for rank in range(SIZE)], axis=0)
    other = jax.jit(lambda x: hvd.allreduce(x[:3] + 1, hvd.Sum))
    plus = np.sum([np.asarray(one)[:3] + 1 for one in inputs], axis=0)
    for _ in range(50):
        results, added = program(inputs[RANK]), other(inputs[RANK])  # the second is not told to wait for the first
        np.testing.assert_allclose(np.asarray(results), expected, rtol=1e-4)
        np.testing.assert_allclose(added, plus, rtol=1e-5)


# ---- Optimizers: a network that learns from all ranks' batches must be the one that learns from the joined batch.


def network(seed=0):
    first, second = jax.random.split(jax.random.key(seed))
    return {"first": jax.random.normal(first, (6, 8)) * 0.3, "second": jax.random.normal(second, (8, 3)) * 0.3}


def loss_of(params, batch):
    return jnp.mean((jnp.tanh(batch[0] @ params["first"]) @ params["second"] - batch[1]) ** 2)


def batch_of(step, rank):
    key = jax.random.key(100 * step + rank)
    inputs = jax.random.normal(key, (4, 6))
    return inputs, jnp.sin(inputs[:, :3])


def joined(step):
    parts = [batch_of(step, rank) for rank in range(SIZE)]
    return jnp.concatenate([part[0] for part in parts]), jnp.concatenate([part[1] for part in parts])


def train(optimizer, batches, params, steps=6):
    state = optimizer.init(params)

    @jax.jit
    def step(params, state, batch):
        updates, state = optimizer.update(jax.grad(loss_of)(params, batch), state, params)
        return optax.apply_updates(params, updates), state

    for number in range(steps):
        params, state = step(params, state, batches(number))
    return jax.block_until_ready(params)


def close(params, expected):
    for name, value in expected.items():
        np.testing.assert_allclose(params[name], value, rtol=2e-5, atol=2e-6)


def equal_on_all_ranks(params):
    for value in jax.tree.leaves(params):
        gathered = hvd.allgather(value[None])
        for other in gathered:
            np.testing.assert_array_equal(other, gathered[0])


def test_distributed_optimizer_is_one_process_with_the_joined_batch():
    params = hvd.broadcast_parameters(network(seed=RANK))
    close(params, network(seed=0))
    for optimizer in (optax.sgd(0.1, momentum=0.9), optax.adamw(1e-2)):
        distributed = train(hvd.DistributedOptimizer(optimizer), lambda step: batch_of(step, RANK), params)
        close(distributed, train(optimizer, joined, network()))
        equal_on_all_ranks(distributed)
        alone = train(optimizer, lambda step: batch_of(step, RANK), params)
        if SIZE > 1:  # the test would notice gradients that are not averaged
            assert not np.allclose(alone["first"], distributed["first"], rtol=1e-3)
    predivided = hvd.DistributedOptimizer(optax.sgd(0.1), gradient_predivide_factor=2.0)
    close(train(predivided, lambda step: batch_of(step, RANK), params), train(optax.sgd(0.1), joined, network()))


def test_gradients_are_reduced_once_a_step():
    counted = []
    bind = primitive.collective_p.bind

    def count(*arrays, call):
        counted.append((call.kind, len(arrays)))
        return bind(*arrays, call=call)

    optimizer = hvd.DistributedOptimizer(optax.sgd(0.1))
    params = network()
    before = checks.operations()
    primitive.collective_p.bind = count
    try:
        train(optimizer, lambda step: batch_of(step, RANK), params, steps=5)
    finally:
        del primitive.collective_p.bind
    assert counted == [("allreduce", 2)], counted  # traced once
    assert checks.operations() - before == 5 + FIRST_STEP


def test_backward_passes_per_step():
    optimizer = hvd.DistributedOptimizer(optax.sgd(0.1), backward_passes_per_step=2)
    before = checks.operations()
    params = train(optimizer, lambda step: batch_of(step, RANK), network(), steps=4)
    assert checks.operations() - before == 2 + FIRST_STEP
    twice = [jax.tree.map(lambda *parts: jnp.concatenate(parts), joined(2 * step), joined(2 * step + 1)) for step in range(2)]
    close(params, train(optax.sgd(0.1), lambda step: twice[step], network(), steps=2))


def test_sharded_optimizer():
    for optimizer in (optax.adamw(1e-2), optax.sgd(0.1, momentum=0.9)):
        sharded = hvd.ShardedOptimizer(optimizer)
        close(train(sharded, lambda step: batch_of(step, RANK), network()), train(optimizer, joined, network()))
    state = hvd.ShardedOptimizer(optax.adam(1e-2)).init(network())
    elements = sum(leaf.size for leaf in jax.tree.leaves(state) if leaf.ndim)
    assert elements == 2 * -(-(6 * 8 + 8 * 3) // SIZE)
    raises(UnsupportedError, lambda: hvd.broadcast_parameters({"state": state}), "a part of its own")
    raises(UnsupportedError, lambda: hvd.elastic.JaxState(state=state), "cannot be elastic")


def test_objects_wait_for_programs():
    program = jax.jit(lambda v: hvd.allgather(jnp.tanh(v @ v)[:2]))
    for number in range(20):
        rows = program(jnp.full((100, 100), 0.01 * RANK))  # may not have run yet
        assert hvd.allgather_object((RANK, number)) == [(rank, number) for rank in range(SIZE)]
        assert rows.shape == (2 * SIZE, 100)


# ---- Errors


def test_ranks_that_disagree_are_told():
    if SIZE == 1:
        return
    shape = (4,) if RANK == 0 else (5,)
    raises(jax.errors.JaxRuntimeError, lambda: jax.jit(hvd.allreduce)(jnp.ones(shape)), "rank 0", "[4]", "[5]")
    with_types = False
    try:
        with hvd.typed_errors():
            jax.block_until_ready(hvd.allreduce(jnp.ones(shape)))
    except MismatchError:
        with_types = True
    assert with_types
    same(hvd.allreduce(jnp.ones(4), hvd.Sum), np.full(4, SIZE))  # and the ranks go on


def test_rows_that_a_program_did_not_expect():
    if SIZE == 1:
        return
    rows = 2 if RANK == 0 else 3
    raises(jax.errors.JaxRuntimeError, lambda: jax.jit(hvd.allgather)(jnp.ones((rows, 2))), "all ranks must give the same one")
    assert hvd.error_of(ValueError("something else")) is None


def test_wrong_calls():
    raises(InvalidArgumentError, lambda: hvd.allgather(jnp.float32(1)), "a scalar has none")
    raises(UnsupportedError, lambda: hvd.allreduce(jnp.ones(2, jnp.uint16), hvd.Min), "Min of uint16")
    raises(UnsupportedError, lambda: hvd.allreduce(jnp.ones(2, jnp.complex64), hvd.Max), "complex")
    raises(UnsupportedError, lambda: jax.jit(lambda x: hvd.alltoall(x, [1] * SIZE))(jnp.ones(SIZE)), "outside")
    if SIZE > 1:
        raises(InvalidArgumentError, lambda: hvd.alltoall(jnp.ones(SIZE + 1)), "divides evenly")


ranks.call_tests(globals())
