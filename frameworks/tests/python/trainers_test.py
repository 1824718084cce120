"""Lightning and Accelerate on the backend "xoe", started by `xoe run` and by torchrun: the same training as in one process."""

import os
import re
import subprocess

import ranks

LIGHTNING = """
import lightning
import torch
from lightning.pytorch.strategies import DDPStrategy


class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.network = network()

    def training_step(self, batch, _):
        loss = torch.nn.functional.mse_loss(self.network(batch[0]), batch[1])
        self.log("loss", loss, sync_dist=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
strategy = DDPStrategy(process_group_backend="xoe")
trainer = lightning.Trainer(
    accelerator="cpu", devices=2, strategy=strategy, max_epochs=3, use_distributed_sampler=False, **quiet
)
module = Module()
rank = int(os.environ["RANK"])
part = torch.utils.data.distributed.DistributedSampler(DATA, num_replicas=2, rank=rank, shuffle=False)
trainer.fit(module, torch.utils.data.DataLoader(DATA, batch_size=16, sampler=part))
tell(trainer.global_rank, trainer.world_size, float(trainer.callback_metrics["loss"]), module.network)
"""

# On a CPU Accelerate makes groups of its own choice only, and takes one that is there.
ACCELERATE = """
import torch
from accelerate import Accelerator

torch.distributed.init_process_group("xoe")
accelerator = Accelerator(cpu=True)
model = network()
batches = torch.utils.data.DataLoader(DATA, batch_size=16)
model, optimizer, batches = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), batches)
for _ in range(3):
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        accelerator.backward(loss)
        optimizer.step()
mean = accelerator.gather(loss.detach().reshape(1)).mean().item()
tell(accelerator.process_index, accelerator.num_processes, mean, model)
accelerator.end_training()
"""

# Both ranks' batches of a step are 32 rows that follow each other.
ALONE = """
model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    for inputs, targets in torch.utils.data.DataLoader(DATA, batch_size=32):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
tell(0, 1, loss.item(), model)
"""

COMMON = """
import os
import sys
import warnings

import torch

warnings.filterwarnings("ignore")
torch.set_num_threads(1)
ROWS = torch.randn(256, 8, generator=torch.Generator().manual_seed(1))
DATA = torch.utils.data.TensorDataset(ROWS, ROWS[:, :2].sin())


def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2))


def tell(rank, size, loss, model):
    total = sum(parameter.double().sum().item() for parameter in model.parameters())
    backend = torch.distributed.get_backend() if torch.distributed.is_initialized() else "alone"
    sys.stdout.write(f"{backend} rank {rank} of {size}: loss {loss:.12f} parameters {total:.12f}\\n")
"""


def installed(folder):
    """The build as an installed package shows itself: PyTorch finds the backend by the package's entry point."""
    information = folder / "xoe-1.2.3.dist-info"
    information.mkdir(exist_ok=True)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: xoe\nVersion: 1.2.3\n")
    (information / "entry_points.txt").write_text("[torch.backends]\nxoe = xoe._torch_autoload:register\n")
    variables = ranks.environment()
    return {**variables, "PYTHONPATH": os.pathsep.join([variables["PYTHONPATH"], str(folder)])}


def losses(folder, program, launcher, backend="xoe", size=2):
    """What all ranks say of their training."""
    script = folder / "train.py"
    script.write_text(COMMON + program)
    done = subprocess.run(
        [*launcher, str(script)],
        env=installed(folder),
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=ranks.HANGS,
    )
    assert done.returncode == 0, done.stdout
    said = re.findall(rf"{backend} rank (\d) of {size}: loss ([\d.]+) parameters (-?[\d.]+)", done.stdout)
    assert sorted(rank for rank, *_ in said) == ["0", "1"][:size], done.stdout
    assert said[0][1:] == said[-1][1:], said
    return [float(number) for number in said[0][1:]]


def compare(folder, program, launcher):
    alone = losses(folder, ALONE, [PYTHON], "alone", 1)
    together = losses(folder, program, launcher)
    assert all(abs(a - b) < 1e-5 for a, b in zip(alone, together, strict=True)), (alone, together)


def test_lightning(folder):
    compare(folder, LIGHTNING, XOE_RUN)


def test_accelerate(folder):
    compare(folder, ACCELERATE, TORCHRUN)


PYTHON = ranks.interpreter()
XOE_RUN = [str(ranks.BUILD / "bin" / "xoe"), "run", "-np", "2", PYTHON]
TORCHRUN = [PYTHON, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
for package in ("lightning", "accelerate"):
    ranks.need(package)
ranks.drive(globals())
