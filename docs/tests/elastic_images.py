"""A training over images, whose ledger is checked in the end; a block of a document takes the place of the line below the data."""

import os
import shutil
import subprocess
import tempfile

import torch

import xoe.torch as hvd

hvd.init()
xoe = os.path.join(os.environ["XOE_BUILD_DIR"], "bin", "xoe")
folder = hvd.broadcast_object(tempfile.mkdtemp(prefix="xoe-docs-") if hvd.rank() == 0 else None, 0)
os.chdir(folder)
if hvd.rank() == 0:
    subprocess.run([xoe, "data", "make", "photos", "--images", "30", "--classes", "3"], check=True, stdout=subprocess.DEVNULL)
hvd.barrier()
model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 32 * 32, 3))
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.01), named_parameters=model.named_parameters())


def step(pixels, labels):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(pixels), labels, reduction="sum").backward()
    optimizer.step()


BLOCK

hvd.barrier()
if hvd.rank() == 0:
    print(subprocess.run([xoe, "data", "ledger", "runs/a/ledger"], check=True, stdout=subprocess.PIPE, text=True).stdout)
    os.chdir("/")
    shutil.rmtree(folder)
