"""On two ranks: exceptions, threads and thread-local data of PyTorch's C++ library and of Xoe's own, at the same time."""

import sys
import threading

if "xoe-first" in sys.argv:
    import xoe

    xoe.init()
    import torch
else:
    import torch

    import xoe

    xoe.init()
import xoe.torch as hvd

ROUNDS = 200
caught = []


def fail_in_both(thread):
    """Each round throws in PyTorch's library and in Xoe's; what is caught must be what was thrown."""
    for k in range(ROUNDS):
        try:
            torch.zeros(2) + torch.zeros(3)
        except RuntimeError as error:
            assert "must match" in str(error), error
        try:
            hvd.allreduce(torch.zeros(1 + hvd.rank()), name=f"fail.{thread}.{k}")
        except xoe.MismatchError as error:
            assert "ranks disagree" in str(error), error
        else:
            raise AssertionError("shapes that differ were accepted")
    caught.append(thread)


threads = [threading.Thread(target=fail_in_both, args=(k,)) for k in range(4)]
for thread in threads:
    thread.start()
for k in range(ROUNDS):
    value = torch.full((1000,), float(hvd.rank() + k))
    assert hvd.allreduce(value, op=hvd.Sum, name=f"sum.{k}").eq(2 * k + 1).all()
for thread in threads:
    thread.join()
assert sorted(caught) == [0, 1, 2, 3], caught
print("together", hvd.size(), flush=True)
