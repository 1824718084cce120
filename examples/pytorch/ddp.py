"""PyTorch's own DistributedDataParallel on Xoe: one word differs from a program for Gloo.

xoe run -np 2 python examples/pytorch/ddp.py
torchrun --nproc-per-node 2 examples/pytorch/ddp.py
"""

import torch
import torch.distributed as dist

dist.init_process_group("xoe")
rank, size = dist.get_rank(), dist.get_world_size()

torch.manual_seed(1)
points = torch.rand(4096, 2) * 2 - 1
inside = (points.square().sum(1) < 0.5).long()
data = torch.utils.data.TensorDataset(points, inside)
sampler = torch.utils.data.DistributedSampler(data, size, rank)
loader = torch.utils.data.DataLoader(data, batch_size=64 // size, sampler=sampler)

network = torch.nn.Sequential(torch.nn.Linear(2, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))
model = torch.nn.parallel.DistributedDataParallel(network)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

for epoch in range(8):
    sampler.set_epoch(epoch)
    for x, y in loader:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    accuracy = (network(points).argmax(1) == inside).float().mean()
    if rank == 0:
        print(f"epoch {epoch}: accuracy {accuracy:.3f}")

dist.destroy_process_group()
