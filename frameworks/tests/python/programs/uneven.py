# Ranks with unequal data: who is done calls join(), and the others go on. Sum, so that the number of ranks does not matter.
import horovod.torch as hvd
import torch

hvd.init()
torch.manual_seed(13)
x, y = torch.randn(56, 5), torch.randn(56, 1)
model = torch.nn.Linear(5, 1)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters(), op=hvd.Sum)

# Seven steps of eight rows; rank 0 has rows in all of them, the last rank in the first four only.
losses = []
mine = [k for k in range(7) if k < 4 or hvd.rank() == 0]
for step in mine:
    sharing = hvd.size() if step < 4 else 1
    rows = slice(step * 8 + hvd.rank(), (step + 1) * 8, sharing)
    optimizer.zero_grad()
    loss = (model(x[rows]) - y[rows]).square().sum()
    loss.backward()
    optimizer.step()
last = hvd.join()
assert 0 <= last < hvd.size()
# Who joined early has old weights: rank 0 has seen all.
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
losses.append(hvd.broadcast(loss.detach(), 0).item())
