"""Gloo, through torch.distributed, under core/bench/collectives/harness.h: the loops are the harness's, in C++.

Started once per rank by measure/compare/run.py with RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and XOE_BENCH_SYNC.
Usage: gloo_collectives.py LIBXOE_BENCH_HARNESS
"""

import ctypes
import os
import sys

import torch
import torch.distributed as dist

DTYPES = [torch.float32, torch.bfloat16, torch.float16]


ALLREDUCE, BROADCAST = 0, 1  # XoeBenchCollective; the others need memory of their own here


class Call(ctypes.Structure):
    """XoeBenchCall."""

    _fields_ = [
        ("collective", ctypes.c_int),
        ("dtype", ctypes.c_int),
        ("data", ctypes.c_void_p),
        ("out", ctypes.c_void_p),
        ("count", ctypes.c_size_t),
    ]


class Engine(ctypes.Structure):
    """XoeBenchEngine."""

    SUPPORTS = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_int)
    ACQUIRE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
    RELEASE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
    RUN = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(Call))
    _fields_ = [
        ("context", ctypes.c_void_p),
        ("supports", SUPPORTS),
        ("acquire", ACQUIRE),
        ("release", RELEASE),
        ("run", RUN),
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

    def run(self, _context, call):
        view = self.views[call[0].dtype]
        if call[0].collective == ALLREDUCE:
            dist.all_reduce(view)
        else:
            dist.broadcast(view, 0)
        return 1


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    library = ctypes.CDLL(sys.argv[1])
    library.xoe_bench_serve.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_int, ctypes.POINTER(Engine)]
    buffers = Buffers()
    engine = Engine(
        None,
        Engine.SUPPORTS(lambda _context, collective, _dtype: int(collective in (ALLREDUCE, BROADCAST))),
        Engine.ACQUIRE(buffers.acquire),
        Engine.RELEASE(buffers.release),
        Engine.RUN(buffers.run),
    )
    path = os.environ["XOE_BENCH_SYNC"].encode()
    code = library.xoe_bench_serve(path, dist.get_rank(), dist.get_world_size(), ctypes.byref(engine))
    dist.destroy_process_group()
    sys.exit(code)


if __name__ == "__main__":
    main()
