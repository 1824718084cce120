"""Sums of arrays on this rank's device, started on each rank by `xoe run`: jax_sums.py psum (JAX's own, a program that knows nothing of
Xoe) or jax_sums.py xoe (xoe.jax in jax.jit). Rank 0 prints a JSON line: the devices, and how many elements were wrong.
"""

import json
import sys

import jax
import jax.numpy as jnp
import numpy as np

COUNT = 100_003
TOLERANCE = {"float32": 1e-5, "bfloat16": 2e-2}


def given(rank, dtype):
    return np.random.default_rng(rank).normal(size=COUNT).astype("float32").astype(jnp.dtype(dtype))


def own_sums():
    """By jax.lax.psum."""
    from jax.sharding import NamedSharding, PartitionSpec

    jax.distributed.initialize()
    rank, size = jax.process_index(), jax.process_count()
    mesh = jax.make_mesh((size,), ("ranks",))
    spec = PartitionSpec("ranks")
    add = jax.jit(jax.shard_map(lambda x: jax.lax.psum(x, "ranks"), mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False))

    def total(values):
        array = jax.make_array_from_process_local_data(NamedSharding(mesh, spec), values[None])
        return add(array).addressable_shards[0].data[0]

    return rank, size, total


def sums_of_xoe():
    import xoe.jax as hvd

    hvd.init()
    add = jax.jit(lambda x: hvd.allreduce(2 * x, op=hvd.Sum) / 2)
    return hvd.rank(), hvd.size(), lambda values: add(jnp.asarray(values))


def main():
    rank, size, total = own_sums() if sys.argv[1:] == ["psum"] else sums_of_xoe()
    wrong = 0
    for dtype, tolerance in TOLERANCE.items():
        for _ in range(3):
            result = np.asarray(total(given(rank, dtype))).astype("float64")
        expected = sum(given(other, dtype).astype("float64") for other in range(size))
        wrong += int((~np.isclose(result, expected, rtol=tolerance, atol=tolerance)).sum())
    if rank == 0:
        devices = ", ".join(sorted({device.device_kind for device in jax.local_devices()}))
        print(json.dumps({"devices": devices, "wrong": wrong}), flush=True)
    return f"{wrong} elements were wrong" if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
