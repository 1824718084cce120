# Gradient accumulation: four small batches a step, and fewer in the last step of an epoch.
import horovod.torch as hvd
import torch

hvd.init()
torch.manual_seed(21)
ACCUMULATE, MICRO = 4, 12 // hvd.size()
x, y = torch.randn(168, 7), torch.randn(168, 2)  # 14 micro batches: 4 + 4 + 4 + 2
model = torch.nn.Sequential(torch.nn.Linear(7, 14), torch.nn.Sigmoid(), torch.nn.Linear(14, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9, nesterov=True)
optimizer = hvd.DistributedOptimizer(
    optimizer, named_parameters=model.named_parameters(), backward_passes_per_step=ACCUMULATE, compression=hvd.Compression.none
)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)

losses = []
for epoch in range(2):
    micro_batches = [
        (x[k : k + 12][hvd.rank() :: hvd.size()], y[k : k + 12][hvd.rank() :: hvd.size()]) for k in range(0, 168, 12)
    ]
    for first in range(0, len(micro_batches), ACCUMULATE):
        group = micro_batches[first : first + ACCUMULATE]
        optimizer.zero_grad()
        total = 0.0
        for data, target in group:
            assert len(data) == MICRO
            loss = torch.nn.functional.mse_loss(model(data), target) / len(group)
            loss.backward()
            total += loss.item()
        optimizer.step()
        losses.append(hvd.allreduce(torch.tensor(total), name="loss").item())
