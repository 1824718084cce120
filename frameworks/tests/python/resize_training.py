"""A training whose ranks come and go: resize_training.py STOP ends when the file STOP is there. Each rank tells its steps, with the
number of ranks that took part in them. While there is a file `hold` beside it, no step ends."""

import os
import pathlib
import sys
import time

import torch

import xoe.torch as hvd

stop = pathlib.Path(sys.argv[1])
hold = stop.parent / "hold"
print(f"pid {os.getpid()} started", flush=True)
hvd.init()
torch.set_num_threads(1)
torch.manual_seed(hvd.rank())  # made equal by sync()


@hvd.elastic.run
def train(state):
    print(f"pid {os.getpid()} rank {hvd.rank()} of {hvd.size()} from step {state.step}", flush=True)
    while True:
        state.optimizer.zero_grad()
        state.model(torch.full((1, 4), float(state.step % 7))).sum().backward()
        state.optimizer.step()
        ranks = int(hvd.allreduce(torch.ones(1), op=hvd.Sum, name="ranks"))
        state.step += 1
        print(f"step {state.step} by {ranks}", flush=True)
        while hold.exists():
            time.sleep(0.01)
        if hvd.allreduce(torch.tensor(float(stop.exists())), op=hvd.Max, name="stop") > 0:
            return
        time.sleep(0.02)
        state.commit() if state.step % 2 else state.check_host_updates()


model = torch.nn.Linear(4, 2)
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9), model.named_parameters())
train(hvd.elastic.TorchState(model=model, optimizer=optimizer, step=0))
values = [x for p in model.parameters() for x in p.flatten().tolist()]
assert len(set(map(tuple, hvd.allgather_object(values)))) == 1
print("ended", flush=True)
