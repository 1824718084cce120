"""Allreduce on tensors of this rank's device: whether sums are right, and what a call takes. Started on each rank by `xoe run`.

    xoe run -np 2 python measure/gpu/collectives.py xoe --device cuda --sizes 4K,64M

Rank 0 prints JSON lines: the transport of the tensors, the elements that were wrong, and for each size the median time of a call that
has completed on the device, with nccl-tests' algbw and busbw. With --may-refuse a refusal is a result: {"refused": why}.
"""

import argparse
import json
import os
import re
import statistics
import time

import torch

UNITS = {"K": 1 << 10, "M": 1 << 20}
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 2e-2}
RANK = int(os.environ["RANK"])
SIZE = int(os.environ["WORLD_SIZE"])


class Xoe:
    def __init__(self, device):
        import xoe.torch as hvd
        from xoe import world
        from xoe.torch import gpu

        hvd.init()
        self.hvd = hvd
        self.in_host_memory = gpu.choose_device([torch.zeros(1, device=device)], "sum") == "cpu"
        self.world = world

    def allreduce(self, tensor):
        self.hvd.allreduce_(tensor, op=self.hvd.Sum, name="tensor")

    def transport(self):
        """The transport of the tensors so far, as the engine has counted."""
        if self.in_host_memory:
            return self.world.current().engine.gpu_refusal()
        counted = re.findall(r'^xoe_gpu_collectives_total\{.*transport="(\w+)".*\} [1-9]', self.world.metrics(), re.MULTILINE)
        return ", ".join(counted) or "GPU memory"

    def leave(self):
        self.hvd.shutdown()


class Torch:
    def __init__(self, backend):
        torch.distributed.init_process_group(backend)
        self.backend = backend

    def allreduce(self, tensor):
        torch.distributed.all_reduce(tensor)

    def transport(self):
        return self.backend

    def leave(self):
        torch.distributed.destroy_process_group()


def values(rank, count, dtype):
    return torch.randn(count, generator=torch.Generator().manual_seed(rank)).to(dtype)


def wrong_elements(library, device, dtype, count=100_003):
    """How many elements of a sum are not what this rank computes by itself."""
    tensor = values(RANK, count, dtype).to(device)
    library.allreduce(tensor)
    expected = sum(values(rank, count, dtype).double() for rank in range(SIZE))
    return int((~torch.isclose(tensor.cpu().double(), expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])).sum())


def timed(library, tensor, synchronize, seconds):
    """Seconds of a call, the median of what these seconds allow. All ranks make the same number of them, which rank 0's first one decides."""

    def call():
        synchronize()
        started = time.perf_counter()
        library.allreduce(tensor)
        synchronize()
        return time.perf_counter() - started

    call()
    share = torch.tensor([call() if RANK == 0 else 0.0], device=tensor.device)
    if RANK != 0:
        call()
    library.allreduce(share)
    calls = max(5, min(2000, int(seconds / max(share.item(), 1e-6))))
    tensor.zero_()
    return statistics.median(call() for _ in range(calls))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("through", choices=("xoe", "nccl", "gloo"))
    parser.add_argument("--device", choices=("cpu", "cuda"), required=True)
    parser.add_argument("--sizes", required=True)
    parser.add_argument("--seconds", type=float, default=0.4, help="for each size")
    parser.add_argument("--may-refuse", action="store_true")
    options = parser.parse_args()

    device = torch.device(options.device)
    synchronize = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    if device.type == "cuda":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
        torch.cuda.set_device(device)

    def say(**figures):
        if RANK == 0:
            print(json.dumps(figures), flush=True)

    try:
        library = Xoe(device) if options.through == "xoe" else Torch(options.through)
        wrong = sum(wrong_elements(library, device, dtype) for dtype in TOLERANCE)
    except (ValueError, RuntimeError) as error:
        say(refused=str(error).splitlines()[0])
        return 0 if options.may_refuse else str(error)
    say(transport=library.transport(), wrong=wrong)
    rows = []
    for text in options.sizes.split(","):
        size = int(text[:-1]) * UNITS[text[-1]]
        seconds = timed(library, torch.ones(size // 4, device=device), synchronize, options.seconds)
        bandwidth = size / seconds / 1e9
        rows.append(
            {"bytes": size, "us": seconds * 1e6, "algbw_gb_s": bandwidth, "busbw_gb_s": bandwidth * 2 * (SIZE - 1) / SIZE}
        )
        say(sizes=rows)
    library.leave()
    return 0 if wrong == 0 else f"{wrong} elements were wrong"


if __name__ == "__main__":
    raise SystemExit(main())
