"""The program of the PyTorch contestants: ResNet-18 on random images, a line of JSON for its process and one for each step.

    worker.py xoe FOLDER      under `xoe run`: xoe.torch, all of it in elastic.run(), with a commit every few steps
    worker.py fixed FOLDER    under `xoe run`: the same without elastic.run()
    worker.py ddp FOLDER      under torchrun: PyTorch's DistributedDataParallel over Gloo; rank 0 writes a checkpoint to FOLDER every
                              few steps, from which ranks that were restarted go on
"""

import argparse
import json
import os
import pathlib
import sys

import torch
import torchvision
from torch.nn import functional


def tell(event, **more):
    """One write, so that lines of several ranks stay whole."""
    sys.stdout.write(json.dumps({"event": event, **more}) + "\n")
    sys.stdout.flush()


class Task:
    """A step is the same in each contestant."""

    def __init__(self, options):
        torch.manual_seed(1)
        self.model = torchvision.models.resnet18(num_classes=options.classes)
        self.images = torch.randn(options.batch, 3, options.image_size, options.image_size)
        self.labels = torch.randint(options.classes, (options.batch,))

    def step(self, model, optimizer):
        optimizer.zero_grad()
        functional.cross_entropy(model(self.images), self.labels).backward()
        optimizer.step()


def sgd(model):
    return torch.optim.SGD(model.parameters(), 1e-4, momentum=0.9)


def train_with_xoe(options, elastic):
    import xoe.torch as hvd

    hvd.init()
    task = Task(options)
    optimizer = hvd.DistributedOptimizer(sgd(task.model), named_parameters=task.model.named_parameters())

    def steps(state):
        while state.step < options.steps:
            task.step(task.model, optimizer)
            state.step += 1
            if hvd.rank() == 0:
                tell("report", step=state.step, ranks=hvd.size())
            if elastic and state.step % options.every == 0:
                state.commit()
            elif elastic:
                state.check_host_updates()

    state = hvd.elastic.TorchState(task.model, optimizer, step=0)
    if elastic:
        hvd.elastic.run(steps)(state)
    else:
        hvd.broadcast_parameters(task.model.state_dict(), root_rank=0)
        steps(state)


def train_with_ddp(options):
    torch.distributed.init_process_group("gloo")
    rank, ranks = torch.distributed.get_rank(), torch.distributed.get_world_size()
    task = Task(options)
    optimizer = sgd(task.model)
    path, step = pathlib.Path(options.folder) / "checkpoint.pt", 0
    if path.exists():
        saved = torch.load(path)
        task.model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        step = saved["step"]
    model = torch.nn.parallel.DistributedDataParallel(task.model, broadcast_buffers=False)
    while step < options.steps:
        task.step(model, optimizer)
        step += 1
        if rank != 0:
            continue
        tell("report", step=step, ranks=ranks)
        if step % options.every == 0:
            new = path.with_suffix(".new")
            torch.save({"model": task.model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, new)
            new.rename(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("contestant", choices=("xoe", "fixed", "ddp"))
    parser.add_argument("folder")
    for name, value in {"batch": 8, "image-size": 32, "classes": 10, "steps": 10**6, "every": 10}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    torch.set_num_threads(1)
    tell("process", rank=int(os.environ.get("XOE_RANK", os.environ.get("RANK", "0"))), pid=os.getpid())
    if options.contestant == "ddp":
        train_with_ddp(options)
    else:
        train_with_xoe(options, options.contestant == "xoe")


main()
