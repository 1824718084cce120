"""Nothing grows over 10,000 steps: memory, open files, shared memory, threads."""

import gc
import os
import pathlib
import time

import ranks

ranks.start(__file__, sizes=(2,))

import torch

import xoe.torch as hvd

# Nameless operations stay in the engine's cache of names, half a kilobyte each, until it is full: let that be soon.
os.environ["XOE_CACHE_CAPACITY"] = "256"
hvd.init()
torch.set_num_threads(1)
STEPS = int(os.environ.get("XOE_LEAK_STEPS", "10000"))


def resident():
    """Bytes."""
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def counts():
    """Open files, threads, and what stands in /dev/shm."""
    return (
        len(os.listdir("/proc/self/fd")),
        len(os.listdir("/proc/self/task")),
        len([name for name in os.listdir("/dev/shm") if "xoe" in name and not name.startswith("xoe-test-")]),
    )


def settled():
    """The counts once they stay as they are: a thread that has done its work is there for a moment yet."""
    now, since = counts(), time.monotonic()
    end = since + 20
    while time.monotonic() < min(since + 0.5, end):
        time.sleep(0.02)
        if counts() != now:
            now, since = counts(), time.monotonic()
    return now


def test_nothing_grows():
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.001), model.named_parameters())
    inputs = torch.ones(2, 8)

    def steps(count):
        for number in range(count):
            optimizer.zero_grad()
            model(inputs).sum().backward()
            optimizer.step()
            if number % 10 == 0:
                hvd.allgather(inputs, name="gathered")
                hvd.broadcast_object({"step": number}, 0)
                hvd.allreduce_async(inputs, name="dropped")

    steps(max(STEPS // 10, 100))
    gc.collect()
    before, was = resident(), settled()
    steps(STEPS)
    gc.collect()
    after, now = resident(), settled()
    if hvd.rank() == 0:
        print(f"{STEPS} steps: {before >> 10} KiB before, {after >> 10} KiB after; files, threads, segments {was} and {now}")
    assert now == was, (was, now)
    # A leak of one small object a step would be more than this.
    assert after - before < 4 << 20, f"{(after - before) >> 10} KiB more"


def test_engines_leave_nothing():
    hvd.shutdown()
    hvd.init()
    was = settled()
    for _ in range(20):
        hvd.shutdown()
        hvd.init()
        hvd.allreduce(torch.ones(100))
    now = settled()
    assert now == was, (was, now)


ranks.call_tests(globals())
