# PyTorch's own DistributedDataParallel on the backend "xoe": no_sync and ZeRO.
import torch
import torch.distributed as dist
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel as DDP

import xoe.torch.distributed  # noqa: F401  (registers the backend where the package is not installed)

dist.init_process_group("xoe")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(19)
x, y = torch.randn(144, 9), torch.randn(144, 3)
network = torch.nn.Sequential(torch.nn.Linear(9, 18), torch.nn.ReLU(), torch.nn.Linear(18, 3))
model = DDP(network, bucket_cap_mb=1, gradient_as_bucket_view=True, static_graph=False)
optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.Adam, lr=0.01)
losses = []
for step in range(3):
    for turn in range(2):
        first = (2 * step + turn) * 24
        rows = slice(first + rank, first + 24, size)
        if turn == 0:
            with model.no_sync():
                torch.nn.functional.mse_loss(model(x[rows]), y[rows]).div(2).backward()
        else:
            loss = torch.nn.functional.mse_loss(model(x[rows]), y[rows])
            loss.div(2).backward()
    optimizer.step()
    optimizer.zero_grad()
    mean = loss.detach().clone()
    dist.all_reduce(mean, op=dist.ReduceOp.AVG)
    losses.append(mean.item())

optimizer.consolidate_state_dict(to=0)
objects = [None] * size
dist.all_gather_object(objects, {"rank": rank})
assert objects == [{"rank": other} for other in range(size)]
dist.barrier()
models = {"network": network}
del model, optimizer
dist.destroy_process_group()
