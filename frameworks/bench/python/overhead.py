"""What Python adds to the engine for each tensor: a rank of frameworks/bench/python/run.py. Prints JSON with microseconds a tensor.

The same 160 small tensors are submitted and waited for step after step: through xoe.torch's functions, and through the module's calls
alone with arguments made beforehand, which is the engine and one call of C from Python.
"""

import argparse
import json
import statistics
import time

import torch

import xoe.torch as hvd
from xoe import _core, world


def measure(step, steps):
    for _ in range(20):
        step()
    times = []
    for _ in range(steps):
        started = time.perf_counter()
        step()
        times.append(time.perf_counter() - started)
    return 1e6 * statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tensors", type=int, default=160)
    parser.add_argument("--elements", type=int, default=64)
    parser.add_argument("--steps", type=int, default=300)
    options = parser.parse_args()
    hvd.init()
    torch.set_num_threads(1)
    tensors = [torch.ones(options.elements) for _ in range(options.tensors)]
    names = [f"layer{index}.weight" for index in range(options.tensors)]

    def through_functions():
        handles = [hvd.allreduce_async_(tensor, name=name, op=hvd.Sum) for tensor, name in zip(tensors, names, strict=True)]
        for handle in handles:
            hvd.synchronize(handle)

    engine, request = world.current().engine, _core.Request(_core.KINDS["allreduce"])
    ready = [
        (name, tensor.data_ptr(), tensor.shape, _core.DTYPES["float32"], request, tensor)
        for tensor, name in zip(tensors, names, strict=True)
    ]

    def through_the_module():
        operations = [engine.submit_in_place(*arguments) for arguments in ready]
        for operation in operations:
            operation.wait()

    functions = measure(through_functions, options.steps) / options.tensors
    module = measure(through_the_module, options.steps) / options.tensors
    if hvd.rank() == 0:
        print(json.dumps({"functions_us": functions, "module_us": module, "overhead_us": functions - module}), flush=True)


main()
