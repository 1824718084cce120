"""The same on several processes: xoe run -np 2 python examples/tutorial/two.py"""

import torch
import xoe.torch as hvd

hvd.init()
torch.manual_seed(1)
points = torch.rand(4096, 2) * 2 - 1
inside = (points.square().sum(1) < 0.5).long()
data = torch.utils.data.TensorDataset(points, inside)
sampler = torch.utils.data.DistributedSampler(data, hvd.size(), hvd.rank())
loader = torch.utils.data.DataLoader(data, batch_size=64 // hvd.size(), sampler=sampler)

model = torch.nn.Sequential(torch.nn.Linear(2, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
hvd.broadcast_parameters(model.state_dict(), root_rank=0)

for epoch in range(8):
    sampler.set_epoch(epoch)
    for x, y in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    accuracy = (model(points).argmax(1) == inside).float().mean()
    if hvd.rank() == 0:
        print(f"epoch {epoch}: accuracy {accuracy:.3f}")
