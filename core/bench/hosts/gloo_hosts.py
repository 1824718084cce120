"""Allreduce over hosts with torch.distributed's Gloo; the same figures as loop.h.

Usage: gloo_hosts.py INTERFACE SECONDS BYTES..., with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT set.
"""

import json
import statistics
import sys
import time

import torch
import torch.distributed as dist


def sent_bytes(interface):
    with open("/proc/self/net/dev", encoding="ascii") as devices:
        for line in devices:
            name, _, fields = line.partition(":")
            if name.strip() == interface:
                return int(fields.split()[8])
    return 0


def maximum(x):
    value = torch.tensor([x], dtype=torch.float64)
    dist.all_reduce(value, op=dist.ReduceOp.MAX)
    return value.item()


def main():
    interface, seconds, sizes = sys.argv[1], float(sys.argv[2]), [int(text) for text in sys.argv[3:]]
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    for bytes_ in sizes:
        data = torch.empty(bytes_ // 4)
        times, spent, sent, n = [], 0.0, 0, 0
        while n < 4 or (spent < seconds and n < 2000):
            data.fill_(rank + 1)
            maximum(0)
            before = sent_bytes(interface)
            began = time.perf_counter()
            dist.all_reduce(data)
            slowest = maximum(time.perf_counter() - began)
            assert data[-1].item() == size * (size + 1) // 2
            n += 1
            if n == 1:
                continue
            times.append(slowest)
            sent += sent_bytes(interface) - before
            spent += slowest
        if rank == 0:
            figures = {"bytes": bytes_, "seconds": statistics.median(times), "samples": len(times),
                       "sent": sent / len(times)}
            print(json.dumps(figures), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
