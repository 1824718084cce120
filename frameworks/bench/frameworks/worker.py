"""One rank of frameworks/bench/frameworks/run.py: times a step of communication again and again, and prints a line of JSON.

worker.py CONTESTANT STEPS [BYTES]
"""

import json
import os
import statistics
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


def shapes():
    """Of ResNet-50's 161 gradients, 25.6 million numbers: convolutions, two vectors after each, and the last layer."""
    found = [(7, 7, 3, 64), (64,), (64,)]
    width = 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        inner = 64 << stage
        for block in range(blocks):
            kernels = [(1, 1, width, inner), (3, 3, inner, inner), (1, 1, inner, 4 * inner)]
            if block == 0:
                kernels.append((1, 1, width, 4 * inner))
            for kernel in kernels:
                found += [kernel, (kernel[3],), (kernel[3],)]
            width = 4 * inner
    return [*found, (2048, 1000), (1000,)]


def measure(step, steps):
    """The median of a step, in ms. All ranks take as many."""
    for _ in range(3):
        step()
    times = []
    for _ in range(steps):
        started = time.perf_counter()
        step()
        times.append(time.perf_counter() - started)
    return 1000 * statistics.median(times)


def engine(_):
    """The engine alone, through Python's module: named tensors, all submitted, then waited for."""
    import numpy as np

    import xoe
    from xoe import _core, world

    xoe.init()
    made = world.current().engine
    arrays = [np.ones(shape, np.float32) for shape in shapes()]
    request = _core.Request(_core.KINDS["allreduce"], _core.REDUCTIONS["average"])
    dtype = _core.DTYPES["float32"]

    def step():
        running = [
            made.submit_in_place(f"gradient.{number}", array.ctypes.data, array.shape, dtype, request, array)
            for number, array in enumerate(arrays)
        ]
        for one in running:
            one.wait()

    return step


def torch(_):
    import torch as pytorch

    import xoe.torch as hvd

    hvd.init()
    tensors = [pytorch.ones(shape) for shape in shapes()]

    def step():
        handles = [hvd.allreduce_async_(tensor, name=f"gradient.{number}") for number, tensor in enumerate(tensors)]
        for handle in handles:
            handle.wait()

    return step


def jax(_):
    import jax as the_jax
    import jax.numpy as jnp

    import xoe.jax as hvd

    hvd.init()
    arrays = [jnp.ones(shape, jnp.float32) for shape in shapes()]
    program = the_jax.jit(hvd.allreduce)
    return lambda: the_jax.block_until_ready(program(arrays))


def tensorflow(_):
    import tensorflow as tf

    import xoe.tensorflow as hvd

    hvd.init()
    tensors = [tf.ones(shape) for shape in shapes()]
    program = tf.function(hvd.grouped_allreduce)
    return lambda: program(tensors)[-1].numpy()


def mirrored(_):
    """TensorFlow's own engine between processes."""
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        variables = [tf.Variable(tf.ones(shape)) for shape in shapes()]

    @tf.function
    def program():
        def replica():
            context = tf.distribute.get_replica_context()
            return context.all_reduce(tf.distribute.ReduceOp.MEAN, [variable.read_value() for variable in variables])[-1]

        return strategy.run(replica)

    return lambda: program().numpy()


def psum(size):
    """JAX's own collective, on the engine that JAX_CPU_COLLECTIVES_IMPLEMENTATION names."""
    import jax as the_jax
    import numpy as np
    from jax.sharding import NamedSharding
    from jax.sharding import PartitionSpec as P

    the_jax.distributed.initialize()
    mesh = the_jax.make_mesh((the_jax.process_count(),), ("i",))
    given = the_jax.make_array_from_process_local_data(NamedSharding(mesh, P("i")), np.ones(size // 4, np.float32))

    def total(x):
        return the_jax.lax.psum(x, "i")

    program = the_jax.jit(the_jax.shard_map(total, mesh=mesh, in_specs=P("i"), out_specs=P()))
    assert (np.asarray(program(given)) == the_jax.process_count()).all()
    versions.append(f"JAX {the_jax.__version__}")
    return lambda: the_jax.block_until_ready(program(given))


def mpi4jax(size):
    """The allreduce of mpi4jax, in place of psum."""
    import jax as the_jax
    import mpi4jax as the_mpi4jax
    import numpy as np
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    given = the_jax.numpy.ones(size // 4, np.float32)
    program = the_jax.jit(lambda x: the_mpi4jax.allreduce(x, op=MPI.SUM, comm=world))
    assert (np.asarray(program(given)) == world.size).all()
    library = MPI.Get_library_version().partition(",")[0]
    versions.extend([f"JAX {the_jax.__version__}", f"mpi4jax {the_mpi4jax.__version__}", library])
    return lambda: the_jax.block_until_ready(program(given))


contestant, steps, versions = sys.argv[1], int(sys.argv[2]), []
median = measure(globals()[contestant](int(sys.argv[3]) if len(sys.argv) > 3 else 0), steps)
# At once, since ranks of mpirun share a pipe.
sys.stdout.write(json.dumps({"contestant": contestant, "ms": median, "versions": ", ".join(versions)}) + "\n")
sys.stdout.flush()
