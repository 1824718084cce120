"""All frameworks in one process, imported in any order, with Xoe's Gloo and MPI loaded before, between or after them: each one's
collective gives the sum, and so does PyTorch's own Gloo."""

import itertools

import ranks

ranks.use("frameworks", "jax")

PROGRAM = """
import os, sys, ctypes, glob
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
order = sys.argv[1].split(",")
def load(what):
    if what == "torch":
        import torch
    elif what == "tensorflow":
        import tensorflow
    elif what == "jax":
        import jax
    elif what == "xoe":
        import xoe
        xoe.init()
        for plugin in sorted(glob.glob(os.path.join(os.path.dirname(xoe.__file__), "lib", "libxoe-*.so"))):
            ctypes.CDLL(plugin)  # what several hosts communicate through: MPI, and Gloo, which PyTorch has one of its own of
for what in order:
    load(what)
import jax.numpy as jnp, numpy as np, tensorflow as tf, torch
import xoe.jax, xoe.tensorflow, xoe.torch
rank, size = xoe.rank(), xoe.size()
expected = np.full(1000, sum(range(size)), "float32")
for _ in range(3):
    np.testing.assert_array_equal(xoe.jax.allreduce(jnp.full(1000, float(rank)), xoe.jax.Sum), expected)
    np.testing.assert_array_equal(xoe.tensorflow.allreduce(tf.fill([1000], float(rank)), op=xoe.tensorflow.Sum), expected)
    np.testing.assert_array_equal(xoe.torch.allreduce(torch.full((1000,), float(rank)), op=xoe.torch.Sum), expected)
import torch.distributed as dist
dist.init_process_group("gloo")
ones = torch.ones(10)
dist.all_reduce(ones)
assert ones[0] == size
dist.destroy_process_group()
print("all well", flush=True)
"""


def test_every_order(folder):
    path = folder / "together.py"
    path.write_text(PROGRAM)
    orders = list(itertools.permutations(("torch", "tensorflow", "jax", "xoe")))
    for order in orders:
        done = ranks.run(2, path, ",".join(order))
        print(f"{', '.join(order)}: exit code {done.returncode} after {done.seconds:.0f} s", flush=True)
        assert done.returncode == 0 and done.stdout.count("all well") == 2, done.stdout


ranks.drive(globals())
