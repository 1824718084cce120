"""A training with elastic state, whose ranks can be told to die: restart_training.py MARKS [RANK:STEP]...

Each rank that a victim names is killed once, at that step, in the middle of a gradient step; MARKS is a folder, for all ranks, that
remembers it.
"""

import os
import pathlib
import signal
import sys

import torch

import xoe.torch as hvd

folder, *victims = sys.argv[1:]
hvd.init()
torch.set_num_threads(1)
RANK, SIZE = hvd.rank(), hvd.size()


def dies_at(step):
    mark = pathlib.Path(folder, f"{RANK}.{step}")
    if f"{RANK}:{step}" in victims and not mark.exists():
        mark.touch()
        return True
    return False


def network():
    torch.manual_seed(RANK)  # made equal by sync()
    return torch.nn.Linear(4, 2)


def gradient_step(model, optimizer, number):
    optimizer.zero_grad()
    model(torch.full((1, 4), float(number + RANK))).sum().backward()
    if dies_at(number):
        os.kill(os.getpid(), signal.SIGKILL)
    optimizer.step()


@hvd.elastic.run
def train(state):
    print(f"pid {os.getpid()} from step {state.step}", flush=True)
    while state.step < 12:
        gradient_step(state.model, state.optimizer, state.step)
        state.step += 1
        if state.step % 3 == 0:
            state.commit()


model = network()
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9), model.named_parameters())
state = hvd.elastic.TorchState(model=model, optimizer=optimizer, step=0)
train(state)
assert state.step == 12
values = [round(x, 5) for p in model.parameters() for x in p.flatten().tolist()]
print("ended with", values, flush=True)
