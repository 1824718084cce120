"""A training for logical_shards_elastic_test.py and train/bench/elastic/shards.py: a small network with batch norm and dropout, trained by xoe.torch.LogicalShards within
elastic.run(). Each rank tells its process, its steps, and, when it has ended, what its weights are.

    logical_shards_training.py --shards 6 --steps 300
"""

import argparse
import hashlib
import json
import os
import sys
import time

import torch
from torch.nn import functional

import xoe.torch as hvd

IMAGES, BATCH, CLASSES = 64, 2, 5


def tell(event, **more):
    """One write, so that lines of several ranks stay whole."""
    sys.stdout.write(json.dumps({"event": event, **more}) + "\n")
    sys.stdout.flush()


def network():
    torch.manual_seed(1)
    layers = [
        torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.Dropout(0.2),
        torch.nn.AdaptiveAvgPool2d(2), torch.nn.Flatten(), torch.nn.Linear(32, CLASSES),
    ]  # fmt: skip
    return torch.nn.Sequential(*layers)


def weights_of(model, optimizer):
    digest = hashlib.sha256()
    for value in [*model.state_dict().values(), *(v for one in optimizer.state.values() for v in one.values())]:
        digest.update(torch.as_tensor(value).numpy().tobytes())
    return digest.hexdigest()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name, value in {"shards": 6, "steps": 300, "every": 3}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument(
        "--hold", help="STEP:FILE: after so many steps it waits until there is the file, and ranks may come and go"
    )
    options = parser.parse_args()
    held_at, _, release = (options.hold or "-1:").partition(":")
    torch.set_num_threads(1)
    tell("process", rank=int(os.environ.get("XOE_RANK", "0")), pid=os.getpid())
    hvd.init()
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    logical = hvd.LogicalShards(model, optimizer, options.shards, seed=3)
    drawn = torch.Generator().manual_seed(5)
    images, labels = torch.randn(IMAGES, 3, 12, 12, generator=drawn), torch.randint(CLASSES, (IMAGES,), generator=drawn)

    def released():
        return hvd.allreduce(torch.tensor(float(os.path.exists(release))), op=hvd.Min, name="released") > 0

    @hvd.elastic.run
    def train(state):
        tell("world", rank=hvd.rank(), ranks=hvd.size(), step=state.step)
        while state.step < options.steps:
            while state.step == int(held_at) and not released():
                time.sleep(0.02)
                state.check_host_updates()
            with logical.step(state.step) as step:
                for shard in step.shards():
                    places = [place % IMAGES for place in logical.positions(state.step, shard, BATCH)]
                    step.backward(functional.cross_entropy(model(images[places]), labels[places]))
            state.step += 1
            if hvd.rank() == 0:
                tell("report", step=state.step, ranks=hvd.size(), loss=step.loss)
            if state.step % options.every == 0:
                state.commit()
            else:
                state.check_host_updates()

    train(hvd.elastic.TorchState(model, optimizer, step=0))
    tell("weights", rank=hvd.rank(), digest=weights_of(model, optimizer))


main()
