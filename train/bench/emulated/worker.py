#!/usr/bin/env python3
"""DDP on Gloo, one rank of it, with an emulated accelerator, as `xoe bench train --emulate-accelerator` emulates it: a third of a step's time passes
in the forward pass, two thirds in the backward pass, where gradients of ResNet-50's sizes appear one after the other. Prints images/s."""

import json
import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torchvision.models import resnet50

FORWARD_SHARE = 1 / 3


class Accelerator(torch.nn.Module):
    """Parameters of a model, whose gradients appear at equal distances."""

    def __init__(self, parameters, backward_seconds):
        super().__init__()
        self.parameters_in_order = torch.nn.ParameterList(parameters)
        self.clock = Clock(backward_seconds, len(self.parameters_in_order))

    def forward(self, x):
        for parameter in self.parameters_in_order:
            x = Layer.apply(x, parameter, self.clock)
        return x


class Clock:
    """When each gradient is there."""

    def __init__(self, seconds, count):
        self.seconds, self.count, self.done, self.started = seconds, count, 0, 0.0

    def wait_for_next(self):
        if self.done == 0:
            self.started = time.monotonic()
        self.done += 1
        time.sleep(max(0.0, self.started + self.seconds * self.done / self.count - time.monotonic()))
        self.done %= self.count


class Layer(torch.autograd.Function):
    @staticmethod
    def forward(context, x, parameter, clock):
        context.parameter, context.clock = parameter, clock
        return x.clone()

    @staticmethod
    def backward(context, gradient):
        context.clock.wait_for_next()
        return gradient, torch.full_like(context.parameter, 1e-3), None


def main():
    images_per_s, batch, steps, warmup = float(sys.argv[1]), *map(int, sys.argv[2:5])
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    seconds = batch / images_per_s
    model = Accelerator(resnet50().parameters(), seconds * (1 - FORWARD_SHARE))
    wrapped = DistributedDataParallel(model, broadcast_buffers=False, gradient_as_bucket_view=True)
    taken = []
    for _ in range(warmup + steps):
        started = time.monotonic()
        loss = wrapped(torch.ones(1, requires_grad=True))
        time.sleep(seconds * FORWARD_SHARE)
        loss.backward()
        taken.append(time.monotonic() - started)
    if dist.get_rank() == 0:
        print(json.dumps({"images_per_s": dist.get_world_size() * batch / statistics.median(taken[warmup:])}), flush=True)
    dist.destroy_process_group()


main()
