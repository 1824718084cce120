"""Gloo, through torch.distributed, under core/bench/engine/steps.h: the loops are the harness's, in C++.

Gloo knows no names: all ranks must sum in one order, so the one that the harness draws is not used. `single`: an
all_reduce for each tensor, started one after the other, then waited for. `bucketed`: as DistributedDataParallel does,
a first bucket of 1 MiB, then of 25 MiB: copied together, one all_reduce each, copied apart.

Started once per rank by core/bench/engine/run.py with RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and XOE_BENCH_SYNC.
Usage: gloo_steps.py LIBXOE_BENCH_HARNESS single|bucketed
"""

import ctypes
import os
import sys

import torch
import torch.distributed as dist

FIRST_BUCKET, BUCKET = 1 << 20, 25 << 20  # bytes: the defaults of DistributedDataParallel


class Steps(ctypes.Structure):
    """XoeBenchSteps."""

    PREPARE = ctypes.CFUNCTYPE(
        ctypes.c_int,
        ctypes.c_void_p,
        ctypes.c_int,
        ctypes.POINTER(ctypes.c_size_t),
        ctypes.POINTER(ctypes.c_void_p),
    )
    RELEASE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    STEP = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    RECORD = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int)
    _fields_ = [
        ("context", ctypes.c_void_p),
        ("prepare", PREPARE),
        ("release", RELEASE),
        ("step", STEP),
        ("record", RECORD),
    ]


def buckets_of(tensors):
    """Tensors by bucket, as DistributedDataParallel cuts them: a bucket is closed once it has reached its size."""
    buckets, limit = [[]], FIRST_BUCKET
    size = 0
    for tensor in tensors:
        buckets[-1].append(tensor)
        size += tensor.nbytes
        if size >= limit:
            buckets.append([])
            size, limit = 0, BUCKET
    return [bucket for bucket in buckets if bucket]


class Single:
    def __init__(self, tensors):
        self.tensors = tensors

    def step(self):
        if len(self.tensors) == 1:
            dist.all_reduce(self.tensors[0])
            return
        for work in [dist.all_reduce(tensor, async_op=True) for tensor in self.tensors]:
            work.wait()


class Bucketed:
    def __init__(self, tensors):
        self.buckets = []
        for bucket in buckets_of(tensors):
            flat = torch.zeros(sum(tensor.numel() for tensor in bucket))
            self.buckets.append((bucket, flat, list(flat.split([tensor.numel() for tensor in bucket]))))

    def step(self):
        works = []
        for tensors, flat, views in self.buckets:
            torch._foreach_copy_(views, tensors)
            works.append(dist.all_reduce(flat, async_op=True))
        for work, (tensors, _, views) in zip(works, self.buckets, strict=True):
            work.wait()
            torch._foreach_copy_(tensors, views)


class Bench:
    def __init__(self, design):
        self.design = design
        self.exchange = None

    def prepare(self, _context, count, elements, data):
        tensors = [torch.zeros(elements[t]) for t in range(count)]
        for t, tensor in enumerate(tensors):
            data[t] = tensor.data_ptr()
        self.exchange = self.design(tensors)
        return 1

    def release(self, _context):
        self.exchange = None

    def step(self, _context, _order):
        self.exchange.step()
        return 1


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    library = ctypes.CDLL(sys.argv[1])
    library.xoe_bench_serve_steps.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_int, ctypes.POINTER(Steps)]
    bench = Bench({"single": Single, "bucketed": Bucketed}[sys.argv[2]])
    steps = Steps(
        None, Steps.PREPARE(bench.prepare), Steps.RELEASE(bench.release), Steps.STEP(bench.step), Steps.RECORD()
    )
    path = os.environ["XOE_BENCH_SYNC"].encode()
    code = library.xoe_bench_serve_steps(path, dist.get_rank(), dist.get_world_size(), ctypes.byref(steps))
    dist.destroy_process_group()
    sys.exit(code)


if __name__ == "__main__":
    main()
