# PyTorch's profiler around the steps: wait one, warm up one, record two.
import horovod.torch as hvd
import torch
from torch.profiler import ProfilerActivity, profile, record_function, schedule

hvd.init()
torch.manual_seed(1)
X = torch.randn(144, 10)
Y = X @ torch.randn(10, 4)

net = torch.nn.Sequential(torch.nn.Linear(10, 20), torch.nn.Tanh(), torch.nn.Linear(20, 4))
opt = torch.optim.SGD(net.parameters(), lr=0.05)
opt = hvd.DistributedOptimizer(opt, named_parameters=net.named_parameters())
hvd.broadcast_parameters(net.state_dict(), root_rank=0)

traces = []
losses = []
per_rank = 24 // hvd.size()
with profile(
    activities=[ProfilerActivity.CPU],
    schedule=schedule(wait=1, warmup=1, active=2, repeat=1),
    on_trace_ready=lambda done: traces.append({event.key for event in done.key_averages()}),
    record_shapes=True,
) as prof:
    for step in range(6):
        first = step * 24 + hvd.rank() * per_rank
        with record_function("forward"):
            loss = torch.nn.functional.mse_loss(net(X[first : first + per_rank]), Y[first : first + per_rank])
        opt.zero_grad()
        with record_function("backward"):
            loss.backward()
        opt.step()
        prof.step()
        losses.append(hvd.allreduce(loss.detach()).item())

assert len(traces) == 1, traces
# One step in the trace, by the name that PyTorch's tools look for.
assert {"forward", "backward", "Optimizer.step#SGD.step"} <= traces[0], traces[0]
model = net
