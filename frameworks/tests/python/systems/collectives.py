"""On two ranks: collectives of NumPy arrays from an installed package, and an error that names what differs."""

import platform

import numpy as np

import xoe

xoe.init()
rank, size = xoe.rank(), xoe.size()
assert size == 2, size
for dtype in ("float16", "float32", "float64", "int8", "int64"):
    for count in (1, 7, 100_003):
        mine = (np.arange(count) % 50 + rank).astype(dtype)
        total = xoe.allreduce(mine, name=f"{dtype}-{count}", op=xoe.Sum)
        assert np.array_equal(total, (2 * (np.arange(count) % 50) + 1).astype(dtype)), (dtype, count)
gathered = xoe.allgather(np.full((rank + 1, 2), rank, np.float32), name="gathered")
assert gathered.shape == (3, 2) and gathered.sum() == 4, gathered
try:
    xoe.allreduce(np.zeros(2 + rank, np.float32), name="uneven")
    raise SystemExit("shapes that differ give a result")
except xoe.XoeError as error:
    assert "uneven" in str(error), error
xoe.shutdown()
print(f"rank {rank} of {size}: the collectives are right on {platform.machine()}", flush=True)
