# L-BFGS with its closure, which it calls several times a step, and a search along the line.
import horovod.torch as hvd
import torch

hvd.init()
torch.manual_seed(43)
torch.set_default_dtype(torch.float64)
try:
    x = torch.randn(48, 3)
    y = torch.sin(x).sum(1, keepdim=True)
    mine = slice(hvd.rank(), None, hvd.size())
    model = torch.nn.Sequential(torch.nn.Linear(3, 6), torch.nn.Tanh(), torch.nn.Linear(6, 1))
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = torch.optim.LBFGS(model.parameters(), lr=1.0, max_iter=5, line_search_fn="strong_wolfe")
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())

    def closure():
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x[mine]), y[mine])
        loss.backward()
        return loss

    losses = []
    for _ in range(4):
        loss = optimizer.step(closure)
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 2, losses
finally:
    torch.set_default_dtype(torch.float32)
