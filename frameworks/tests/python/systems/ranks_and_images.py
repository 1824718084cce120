"""On two ranks: objects and batches of images from an installed package, and an error that names what differs.

Argument: a folder of images that `xoe data make` made.
"""

import platform
import sys

import numpy as np

import xoe
import xoe.data
from xoe.objects import allgather_object, broadcast_object

xoe.init()
rank, size = xoe.rank(), xoe.size()
assert size == 2, size
assert allgather_object({"rank": rank}, name="all") == [{"rank": 0}, {"rank": 1}]
assert broadcast_object("of 0" if rank == 0 else None, root_rank=0, name="one") == "of 0"

images = xoe.data.Images(sys.argv[1], batch=4, image_size=32, training=False)
batch = next(iter(images))
pixels = np.asarray(batch.pixels, dtype=np.float32)
assert pixels.size == 4 * 3 * 32 * 32 and np.isfinite(pixels).all() and pixels.std() > 0.01, (pixels.shape, pixels.std())
assert len(set(allgather_object(pixels.tobytes(), name="pixels"))) == 2, "two ranks read the same images"

try:
    broadcast_object(rank, root_rank=rank, name="two roots")
    raise SystemExit("a broadcast from two ranks gives a result")
except xoe.XoeError as error:
    assert "two roots" in str(error), error
xoe.shutdown()
print(f"rank {rank} of {size}: all is right on {platform.machine()}", flush=True)
