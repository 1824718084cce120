"""A rank is killed in the middle of ShardedOptimizer.step(): the others get an error that names it, within a second on a machine that
is not overloaded."""

import re
import signal
import textwrap

import ranks

PATIENCE = 10.0  # seconds, without other work

PROGRAM = """
import os, signal, sys, time
import torch
import xoe
import xoe.torch as hvd
from xoe import _core

signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the launcher ends these ranks at once: let them speak first
hvd.init()
model = torch.nn.Linear(512, 512)
optimizer = hvd.ShardedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1))

def one_step():
    model(torch.ones(2, 512)).sum().backward()
    optimizer.step()

for _ in range(3):
    one_step()
if hvd.rank() == 1:
    update = _core.sgd_step
    def die(*arguments, **options):
        update(*arguments, **options)
        print("dies", time.monotonic(), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    _core.sgd_step = die
hvd.barrier()
try:
    one_step()
except xoe.PeerLostError as error:
    print("told", time.monotonic(), flush=True)
    assert 1 in error.ranks, error.ranks
    print(f"caught: {error}", flush=True)
    assert bool(torch.isfinite(model.weight).all())  # the memory is still there
    try:
        one_step()
    except xoe.InvalidArgumentError as later:
        print(f"later: {later}", flush=True)
sys.exit(3)
"""


def test_a_rank_that_is_killed_in_the_update(folder):
    path = folder / "sharded_kill.py"
    path.write_text(textwrap.dedent(PROGRAM))
    done = ranks.run(3, path, options=ranks.LET_SPEAK)
    assert done.returncode == 128 + signal.SIGKILL, done.stdout
    died = float(re.search(r"dies ([\d.]+)", done.stdout)[1])
    for rank in (0, 2):
        told = float(re.search(rf"\[{rank}\] told ([\d.]+)", done.stdout)[1])
        print(f"rank {rank} was told after {told - died:.2f} s", flush=True)
        assert told - died < ranks.told_within(PATIENCE), done.stdout
        assert re.search(rf"\[{rank}\] caught: .*sharded.step.*rank 1.*half updated: load a checkpoint", done.stdout), (
            done.stdout
        )
        assert re.search(rf"\[{rank}\] later: .*an earlier step has failed", done.stdout), done.stdout


ranks.drive(globals())
