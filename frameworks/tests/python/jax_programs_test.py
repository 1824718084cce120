"""Programs of JAX that know nothing of Xoe, under `xoe run --jax`: every collective of jax.lax for every type, sharded training against one
process, a communicator of some ranks, and a killed rank."""

import re
import signal
import textwrap

import ranks

ranks.use("frameworks", "jax")

COLLECTIVES = """
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P
jax.distributed.initialize()
jax.config.update("jax_enable_x64", True)
RANK, SIZE = jax.process_index(), jax.process_count()
assert jax.device_count() == SIZE, jax.devices()
mesh = jax.make_mesh((SIZE,), ("i",))
rows = 2 * SIZE

def given(dtype, rank):
    numbers = np.random.default_rng(rank).integers(1, 4, (rows, 3))
    return (numbers + 1j * numbers[::-1] if np.dtype(dtype).kind == "c" else numbers).astype(dtype)

def collect(function, dtype, out=P("i")):
    own = given(dtype, RANK)
    array = jax.make_array_from_process_local_data(NamedSharding(mesh, P("i")), own)
    result = jax.jit(jax.shard_map(function, mesh=mesh, in_specs=P("i"), out_specs=out, check_vma=False))(array)
    return np.asarray(result.addressable_shards[0].data)

for dtype in ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64", "bfloat16", "complex64", "complex128"):
    dtype = jnp.dtype(dtype)
    every = np.stack([given(dtype, rank) for rank in range(SIZE)])
    def same(result, expected, what):
        assert result.dtype == dtype, (what, dtype, result.dtype)
        np.testing.assert_array_equal(result, np.asarray(expected).astype(dtype), err_msg=f"{what} of {dtype}")
    wide = every.astype("float64") if dtype == jnp.bfloat16 else every
    if dtype != bool:
        same(collect(lambda x: jax.lax.psum(x, "i"), dtype), wide.sum(0), "psum")
        same(collect(lambda x: jax.lax.psum_scatter(x, "i", tiled=True), dtype), wide.sum(0)[2 * RANK : 2 * RANK + 2], "psum_scatter")
        if dtype.kind != "c":
            same(collect(lambda x: jax.lax.pmin(x, "i"), dtype), wide.min(0), "pmin")
            same(collect(lambda x: jax.lax.pmax(x, "i"), dtype), wide.max(0), "pmax")
    same(collect(lambda x: jax.lax.all_gather(x, "i", tiled=True), dtype), np.concatenate(every), "all_gather")
    same(collect(lambda x: jax.lax.all_to_all(x, "i", 0, 0, tiled=True), dtype), np.concatenate([one[2 * RANK : 2 * RANK + 2] for one in every]), "all_to_all")
    ring = [(rank, (rank + 1) % SIZE) for rank in range(SIZE)]
    same(collect(lambda x: jax.lax.ppermute(x, "i", ring), dtype), every[(RANK - 1) % SIZE], "ppermute")
    one_way = [(0, SIZE - 1)]
    expected = every[0] if RANK == SIZE - 1 else np.zeros_like(every[0])
    same(collect(lambda x: jax.lax.ppermute(x, "i", one_way), dtype), expected, "ppermute one way")
# Much through a ring of 256 KiB, both ways at once.
big = jax.make_array_from_process_local_data(NamedSharding(mesh, P("i")), np.full((1 << 20,), float(RANK)))
turned = jax.jit(jax.shard_map(lambda x: jax.lax.ppermute(x, "i", ring), mesh=mesh, in_specs=P("i"), out_specs=P("i")))(big)
assert (np.asarray(turned.addressable_shards[0].data) == (RANK - 1) % SIZE).all()
if SIZE == 4:
    pairs = jax.make_mesh((2, 2), ("a", "b"))
    array = jax.make_array_from_process_local_data(NamedSharding(pairs, P(("a", "b"))), np.full((1,), float(RANK)))
    for axis, expected in (("a", (RANK % 2) * 2 + 2), ("b", 4 * (RANK // 2) + 1)):
        total = jax.jit(jax.shard_map(lambda x: jax.lax.psum(x, axis), mesh=pairs, in_specs=P(("a", "b")), out_specs=P(("a", "b")), check_vma=False))(array)
        assert float(total.addressable_shards[0].data[0]) == expected, (axis, total, expected)
print("all collectives well", flush=True)
"""

TRAINING = """
import jax, jax.numpy as jnp, numpy as np, optax
from jax.sharding import NamedSharding, PartitionSpec as P
jax.distributed.initialize()
RANK, SIZE = jax.process_index(), jax.process_count()
mesh = jax.make_mesh((SIZE,), ("batch",))
whole = np.random.default_rng(0).normal(size=(24, 6)).astype("float32")
targets = np.sin(whole[:, :2])
params = {"a": jnp.asarray(np.random.default_rng(1).normal(size=(6, 8)), jnp.float32), "b": jnp.ones((8, 2), jnp.float32)}
optimizer = optax.adam(1e-2)
def loss(params, x, y):
    return jnp.mean((jnp.tanh(x @ params["a"]) @ params["b"] - y) ** 2)
def step(params, state, x, y):
    updates, state = optimizer.update(jax.grad(loss)(params, x, y), state, params)
    return optax.apply_updates(params, updates), state
def train(params, x, y):
    state = optimizer.init(params)
    for _ in range(10):
        params, state = jax.jit(step)(params, state, x, y)
    return params
own = np.array_split(np.arange(24), SIZE)[RANK]
sharding = NamedSharding(mesh, P("batch"))
x, y = (jax.make_array_from_process_local_data(sharding, part[own]) for part in (whole, targets))
replicated = jax.device_put(jax.tree.map(np.asarray, params), NamedSharding(mesh, P()))
sharded = train(replicated, x, y)
alone = train(params, whole, targets)
for name in params:
    np.testing.assert_allclose(sharded[name].addressable_shards[0].data, alone[name], rtol=2e-4, atol=2e-5)
print("trained", flush=True)
"""

KILLED = """
import os, signal, time
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P
jax.distributed.initialize()
mesh = jax.make_mesh((jax.process_count(),), ("i",))
array = jax.make_array_from_process_local_data(NamedSharding(mesh, P("i")), np.ones(4))
total = jax.jit(jax.shard_map(lambda x: jax.lax.psum(x, "i"), mesh=mesh, in_specs=P("i"), out_specs=P()))
for _ in range(3):
    jax.block_until_ready(total(array))
if jax.process_index() == 1:
    time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGKILL)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
started = time.monotonic()
try:
    for _ in range(3):
        jax.block_until_ready(total(array))
except Exception as error:  # a ValueError, of an unknown MPI error
    print(f"caught after {time.monotonic() - started:.2f} s: {error}", flush=True)
    time.sleep(1)  # JAX ends a process whose coordinator is gone
os._exit(3)
"""


def run(folder, size, program, **variables):
    path = folder / "program.py"
    path.write_text(textwrap.dedent(program))
    return ranks.run(size, path, options=("--jax", *ranks.LET_SPEAK), **variables)


def test_collectives(folder):
    for size in (1, 2, 3, 4):
        done = run(folder, size, COLLECTIVES)
        assert done.returncode == 0 and done.stdout.count("all collectives well") == size, done.stdout


def test_collectives_over_hosts(folder):
    for size, hosts in ((2, 2), (4, 2)):
        done = run(folder, size, COLLECTIVES, XOE_PRETEND_HOSTS=str(hosts))
        assert done.returncode == 0 and done.stdout.count("all collectives well") == size, done.stdout


def test_training(folder):
    for size in (2, 3):
        done = run(folder, size, TRAINING)
        assert done.returncode == 0 and done.stdout.count("trained") == size, done.stdout


def test_a_killed_rank(folder):
    ring = KILLED.replace('jax.lax.psum(x, "i")', 'jax.lax.ppermute(x, "i", [(0, 1), (1, 2), (2, 0)])').replace(
        "out_specs=P()", 'out_specs=P("i")'
    )
    for program, hosts in ((KILLED, 1), (ring, 1), (ring, 3)):
        done = run(folder, 3, program, XOE_PRETEND_HOSTS=str(hosts))
        assert done.returncode == 128 + signal.SIGKILL, done.stdout
        for rank in (0, 2):
            caught = re.search(rf"\[{rank}\] caught after ([\d.]+) s: .*peer_lost.*rank 1", done.stdout)
            assert caught, done.stdout
            print(f"rank {rank} was told after {float(caught[1]) - 0.5:.2f} s", flush=True)


ranks.drive(globals())
