"""Gloo, through torch.distributed, under bench/collectives/harness.h: the loops are the harness's, in C++.

Started once per rank by bench/run.py with RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and XOE_BENCH_SYNC.
Usage: gloo_allreduce.py LIBXOE_BENCH_HARNESS
"""

import ctypes
import os
import sys

import torch
import torch.distributed as dist

DTYPES = [torch.float32, torch.bfloat16, torch.float16]


class Engine(ctypes.Structure):
    """XoeBenchEngine."""

    SUPPORTS = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int)
    ACQUIRE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
    RELEASE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
    ALLREDUCE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    _fields_ = [
        ("context", ctypes.c_void_p),
        ("supports", SUPPORTS),
        ("acquire", ACQUIRE),
        ("release", RELEASE),
        ("allreduce", ALLREDUCE),
    ]


class Buffers:
    """The tensors of the current figure: the same memory, seen as each type."""

    def __init__(self):
        self.views = None

    def acquire(self, _context, count_bytes):
        memory = torch.zeros(count_bytes, dtype=torch.uint8)
        self.views = [memory.view(dtype) for dtype in DTYPES]
        return memory.data_ptr()

    def release(self, _context, _data, _count_bytes):
        self.views = None

    def allreduce(self, _context, _data, _count, dtype):
        dist.all_reduce(self.views[dtype])
        return 1


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    library = ctypes.CDLL(sys.argv[1])
    library.xoe_bench_serve.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_int, ctypes.POINTER(Engine)]
    buffers = Buffers()
    engine = Engine(
        None,
        Engine.SUPPORTS(lambda _context, _dtype: 1),
        Engine.ACQUIRE(buffers.acquire),
        Engine.RELEASE(buffers.release),
        Engine.ALLREDUCE(buffers.allreduce),
    )
    path = os.environ["XOE_BENCH_SYNC"].encode()
    code = library.xoe_bench_serve(path, dist.get_rank(), dist.get_world_size(), ctypes.byref(engine))
    dist.destroy_process_group()
    sys.exit(code)


if __name__ == "__main__":
    main()
