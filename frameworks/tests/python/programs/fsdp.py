# Fully sharded training (fully_shard), and a layer whose rows are spread as a DTensor, on the backend "xoe".
import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import Shard, distribute_tensor

import xoe.torch.distributed  # noqa: F401

dist.init_process_group("xoe")
rank, size = dist.get_rank(), dist.get_world_size()
mesh = init_device_mesh("cpu", (size,), mesh_dim_names=("data",))
torch.manual_seed(29)
x, y = torch.randn(96, 12), torch.randn(96, 5)
sharded = torch.nn.Sequential(*(torch.nn.Sequential(torch.nn.Linear(12, 12), torch.nn.Tanh()) for _ in range(3)))
sharded.append(torch.nn.Linear(12, 5))
for layer in sharded:
    fully_shard(layer, mesh=mesh, mp_policy=MixedPrecisionPolicy(reduce_dtype=torch.float32))
fully_shard(sharded, mesh=mesh)
optimizer = torch.optim.AdamW(sharded.parameters(), lr=0.01)
losses = []
for step in range(4):
    rows = slice(step * 24 + rank, (step + 1) * 24, size)
    loss = torch.nn.functional.mse_loss(sharded(x[rows]), y[rows])
    loss.backward()
    torch.nn.utils.clip_grad_norm_(sharded.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    mean = loss.detach().clone()
    dist.all_reduce(mean)
    losses.append(mean.item() / size)

weights = get_model_state_dict(sharded, options=StateDictOptions(full_state_dict=True))
rows = distribute_tensor(torch.arange(24.0).reshape(12, 2), mesh, [Shard(0)])
losses += (rows * 2).full_tensor().flatten().tolist()
losses.append((rows * rows).sum().full_tensor().item())
if rank == 0:
    losses += [value.double().norm().item() for value in weights.values()]
if size > 1:
    everywhere = [None] * size
    dist.all_gather_object(everywhere, losses[:4])
    assert all(other == everywhere[0] for other in everywhere)
    losses = [losses]
    dist.broadcast_object_list(losses, src=0)
    [losses] = losses
dist.barrier()
dist.destroy_process_group()
