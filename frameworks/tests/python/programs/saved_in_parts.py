# A distributed checkpoint (torch.distributed.checkpoint) of fully sharded training: written by all ranks at once and in the background, read
# into another model, which goes on as the first one does.
import shutil
import tempfile

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_model_state_dict, get_state_dict, set_state_dict, StateDictOptions
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import xoe.torch.distributed  # noqa: F401

dist.init_process_group("xoe")
rank, size = dist.get_rank(), dist.get_world_size()
mesh = init_device_mesh("cpu", (size,))
torch.manual_seed(31)
x, y = torch.randn(120, 12), torch.randn(120, 5)


def network(seed):
    torch.manual_seed(seed)
    layers = torch.nn.Sequential(torch.nn.Linear(12, 14), torch.nn.Tanh(), torch.nn.Linear(14, 5))
    fully_shard(layers, mesh=mesh)
    return layers, torch.optim.AdamW(layers.parameters(), lr=0.01)


def train(layers, optimizer, steps):
    found = []
    for step in steps:
        rows = slice(step * 24 + rank, (step + 1) * 24, size)
        loss = torch.nn.functional.mse_loss(layers(x[rows]), y[rows])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        found.append(mean.item() / size)
    return found


def full(layers):
    return get_model_state_dict(layers, options=StateDictOptions(full_state_dict=True))


where = [tempfile.mkdtemp() if rank == 0 else None]
dist.broadcast_object_list(where, src=0)
first, first_optimizer = network(1)
losses = train(first, first_optimizer, range(3))
state = dict(zip(("model", "optimizer"), get_state_dict(first, first_optimizer), strict=True))
dcp.save(state, checkpoint_id=f"{where[0]}/at-once")
background = dcp.async_save(state, checkpoint_id=f"{where[0]}/behind", process_group=dist.new_group(backend="xoe"))
background.result()
losses += train(first, first_optimizer, range(3, 5))
for kind in ("at-once", "behind"):
    second, second_optimizer = network(2)
    state = dict(zip(("model", "optimizer"), get_state_dict(second, second_optimizer), strict=True))
    dcp.load(state, checkpoint_id=f"{where[0]}/{kind}")
    set_state_dict(second, second_optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    assert train(second, second_optimizer, range(3, 5)) == losses[3:]
    again = full(second)
    assert all(torch.equal(value, again[name]) for name, value in full(first).items())
weights = full(first)
if rank == 0:
    shutil.rmtree(where[0])
    losses += [value.double().norm().item() for value in weights.values()]
left = [losses]
dist.broadcast_object_list(left, src=0)
[losses] = left
dist.barrier()
dist.destroy_process_group()
