"""Programs of torch.distributed, DistributedDataParallel and Lightning, whose ranks are killed: the others train on (`xoe run --min-np`), or
the job ends and says why; and torchrun, which starts all of them again.
"""

import re
import subprocess
import time

import ranks

BEGIN = """
import os, pathlib, signal, sys, time
import torch, torch.distributed as dist
import xoe.torch as hvd
from xoe.torch.distributed import elastic
torch.set_num_threads(1)
folder, victims = pathlib.Path(sys.argv[1]), sys.argv[2:]
def maybe_die(step):
    mark = folder / f"{os.environ['XOE_RANK']}.{step}"
    if f"{os.environ['XOE_RANK']}:{step}" in victims and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
ROWS = torch.randn(240, 8, generator=torch.Generator().manual_seed(1))
def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 300), torch.nn.Tanh(), torch.nn.Linear(300, 2))
def end(model, *said):
    total = sum(parameter.double().sum().item() for parameter in model.parameters())
    print(f"ended as rank {os.environ['RANK']} of {os.environ['WORLD_SIZE']} with {total:.9f}", *said, flush=True)
"""

DDP = """
model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
@elastic.run
def train(state):
    dist.init_process_group("xoe")
    assert (dist.get_rank(), dist.get_world_size()) == (hvd.rank(), hvd.size())
    parallel = torch.nn.parallel.DistributedDataParallel(state.model)
    while state.step < 12:
        maybe_die(state.step)
        # The batches of all ranks together are the same rows, by whatever number of ranks.
        part = ROWS[state.step * 12 : state.step * 12 + 12][dist.get_rank() :: dist.get_world_size()]
        state.optimizer.zero_grad()
        torch.nn.functional.mse_loss(parallel(part), part[:, :2].sin()).backward()
        state.optimizer.step()
        state.step += 1
        state.commit()
    dist.destroy_process_group()
train(hvd.elastic.TorchState(model=model, optimizer=optimizer, step=0))
end(model)
"""

# Its state is the file of the last checkpoint, which all ranks read.
LIGHTNING = """
import warnings
import lightning
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.strategies import DDPStrategy
warnings.filterwarnings("ignore")
class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.network = network()
    def training_step(self, batch, _):
        maybe_die(self.global_step)
        return torch.nn.functional.mse_loss(self.network(batch), batch[:, :2].sin())
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05)
@elastic.run
def train(state):
    last = folder / "last.ckpt"
    begun = hvd.broadcast_object(last.exists())
    keep = ModelCheckpoint(folder, save_last=True, every_n_train_steps=2, save_top_k=0)
    trainer = lightning.Trainer(
        accelerator="cpu", devices=hvd.local_size(), num_nodes=hvd.cross_size(), max_steps=12, logger=False,
        enable_progress_bar=False, enable_model_summary=False, callbacks=[keep], strategy=DDPStrategy(process_group_backend="xoe"),
    )
    module = Module()
    trainer.fit(module, torch.utils.data.DataLoader(ROWS, batch_size=4), ckpt_path=last if begun else None)
    return module, trainer.global_step
module, steps = train(hvd.elastic.ObjectState())
end(module.network, "after", steps, "steps")
"""


def job(folder, program, size, *victims, options=()):
    path = folder / "program.py"
    path.write_text(BEGIN + program)
    return ranks.run(size, path, folder, *victims, options=options)


def ends(done):
    found = re.findall(r"ended as rank (\d) of (\d) with (\S+)(.*)", done.stdout)
    return [(int(rank), int(size)) for rank, size, _, _ in found], [float(total) for _, _, total, _ in found], done.stdout


def test_survivors_of_ddp_train_on(folder):
    (folder / "whole").mkdir()
    _, wanted, _ = ends(job(folder / "whole", DDP, 1))
    for victims in (("1:4",), ("0:4",), ("0:3", "2:7")):
        part = folder / "-".join(victims).replace(":", ".")
        part.mkdir()
        done = job(part, DDP, 4, *victims, options=("--min-np", "2"))
        places, totals, said = ends(done)
        left = 4 - len(victims)
        assert done.returncode == 0 and sorted(places) == [(rank, left) for rank in range(left)], said
        assert len(set(totals)) == 1 and abs(totals[0] - wanted[0]) < 1e-3, (totals, wanted, said)


def test_a_rank_that_comes_back(folder):
    done = job(folder, DDP, 3, "1:4", options=("--restarts", "1"))
    places, totals, said = ends(done)
    assert done.returncode == 0 and sorted(places) == [(rank, 3) for rank in range(3)] and len(set(totals)) == 1, said


def test_survivors_of_lightning_train_on_from_the_checkpoint(folder):
    done = job(folder, LIGHTNING, 3, "0:5", options=("--min-np", "2"))
    places, totals, said = ends(done)
    assert done.returncode == 0 and sorted(places) == [(0, 2), (1, 2)] and len(set(totals)) == 1, said
    assert said.count("after 12 steps") == 2 and "rank 0 (" in said, said


def test_without_it_the_job_ends_and_names_the_rank(folder):
    plain = LIGHTNING.replace("@elastic.run", "").replace("hvd.local_size()", "3").replace("hvd.cross_size()", "1")
    plain = plain.replace("hvd.broadcast_object(last.exists())", "False")
    done = job(folder, plain, 3, "1:5", options=("--min-np", "2"))
    assert done.returncode == 128 + 9, done.stdout
    named = re.findall(r"xoe run: rank (\d) \(.*was killed by SIGKILL", done.stdout)
    assert named and set(named) == {"1"} and "PeerLostError" in done.stdout, done.stdout


def test_a_mistake_of_the_program_is_no_lost_rank(folder):
    wrong = DDP.replace("        maybe_die(state.step)\n", "        if state.step == 3: raise KeyError('no such layer')\n")
    done = job(folder, wrong, 2, options=("--min-np", "1"))
    assert done.returncode == 1 and "no such layer" in done.stdout and "re-forming" not in done.stdout, done.stdout


TORCHRUN = """
import os, pathlib, signal, sys, time
import torch, torch.distributed as dist
import xoe.torch.distributed
folder, wanted = pathlib.Path(sys.argv[1]), int(sys.argv[2])
dist.init_process_group("xoe")
rank, size, step = dist.get_rank(), dist.get_world_size(), 0
print(f"begins as rank {rank} of {size}", flush=True)
(folder / f"begun.{size}").touch()
while True:
    done = torch.tensor([float(size == wanted and step >= 20)])
    dist.all_reduce(done, op=dist.ReduceOp.MIN)
    step += 1
    if done.item() == 1:
        break
    if len(sys.argv) > 3 and step == 10 and rank == 1 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.02)
dist.destroy_process_group()
print(f"ends as rank {rank} of {size}", flush=True)
"""


def torchrun(folder, *options, words=(), **variables):
    (folder / "program.py").write_text(TORCHRUN)
    command = [ranks.interpreter(), "-m", "torch.distributed.run", *options, str(folder / "program.py"), str(folder), *words]
    return subprocess.Popen(
        command, env=ranks.environment(**variables), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def test_torchrun_starts_all_ranks_again(folder):
    process = torchrun(folder, "--standalone", "--nproc-per-node", "2", "--max-restarts", "1", words=("2", "kill"))
    text = process.communicate(timeout=ranks.HANGS)[0]
    assert process.returncode == 0 and text.count("begins as rank 1 of 2") == 2 and text.count("ends as") == 2, text


def test_torchrun_takes_another_host(folder):
    """--nnodes 1:2: when the second one comes, all ranks start again, on both. Without the variable torchrun 2.15 tells no newcomer where
    to meet, with whatever backend."""
    own = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    at = f"127.0.0.1:{ranks.free_port()}"
    options = ("--nnodes", "1:2", "--rdzv-backend", "c10d", "--rdzv-endpoint", at, "--rdzv-id", "job", "--nproc-per-node", "2")
    one = torchrun(folder, *options, words=("4",), XOE_HOSTNAME="one", **own)
    try:
        while not (folder / "begun.2").exists():
            assert one.poll() is None, one.communicate()[0]
            time.sleep(0.05)
        two = torchrun(folder, *options, words=("4",), XOE_HOSTNAME="two", **own)
        try:
            texts = [process.communicate(timeout=ranks.HANGS)[0] for process in (one, two)]
        finally:
            two.kill()
    finally:
        one.kill()
    assert (one.returncode, two.returncode) == (0, 0), texts
    assert sum(text.count("of 4") for text in texts) == 8 and "begins as rank 0 of 2" in texts[0], texts


ranks.drive(globals())
