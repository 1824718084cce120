# Two halves of the job train two models at the same time, each in a process set of its own; all ranks then average both.
import horovod.torch as hvd
import torch

hvd.init(process_sets="dynamic")
rank, size = hvd.rank(), hvd.size()
names = ["even", "odd"]
members = [list(range(0, size, 2)), list(range(1, size, 2)) or [0]]
sets = [hvd.add_process_set(ranks) if len(ranks) < size else hvd.global_process_set for ranks in members]

torch.manual_seed(10)
x, y = torch.randn(2, 96, 6), torch.randn(2, 96, 1)
models = {name: torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)) for name in names}
losses = []
for half, (name, process_set) in enumerate(zip(names, sets, strict=True)):
    if not process_set.included():
        continue
    model = models[name]
    hvd.broadcast_parameters(model.state_dict(), root_rank=members[half][0], process_set=process_set)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters(), process_set=process_set)
    for step in range(4):
        rows = torch.arange(step * 24, (step + 1) * 24)[process_set.rank() :: process_set.size()]
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x[half][rows]), y[half][rows])
        loss.backward()
        optimizer.step()
        hvd.allreduce(loss.detach(), name=f"loss.{name}", process_set=process_set)

# The soup: every rank needs both models.
for half, name in enumerate(names):
    hvd.broadcast_parameters(models[name].state_dict(), root_rank=members[half][0])
with torch.no_grad():
    for p, q in zip(models["even"].parameters(), models["odd"].parameters(), strict=True):
        p.add_(q).div_(2)
for process_set in sets:
    if process_set is not hvd.global_process_set:
        hvd.remove_process_set(process_set)
