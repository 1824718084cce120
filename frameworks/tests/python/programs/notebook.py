# As in a notebook: a function that uses its closure runs in new processes, and returns what each of them found.
import horovod
import torch

hidden = 10
data = torch.randn(48, 4, generator=torch.Generator().manual_seed(6))


def train(epochs, lr=0.1):
    import horovod.torch as hvd

    hvd.init()
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(4, hidden), torch.nn.Tanh(), torch.nn.Linear(hidden, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    history = []
    for _ in range(epochs):
        mine = data[hvd.rank() :: hvd.size()]
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(mine), mine.sum(1, keepdim=True))
        loss.backward()
        optimizer.step()
        history.append(hvd.allreduce(loss.detach()).item())
    return hvd.rank(), hvd.size(), history, {name: value.numpy() for name, value in model.state_dict().items()}


[(_, _, alone, weights)] = horovod.run(train, args=(5,), kwargs={"lr": 0.2}, np=1)
results = horovod.run(train, args=(5,), kwargs={"lr": 0.2}, np=2)
assert [(rank, size) for rank, size, *_ in results] == [(0, 2), (1, 2)]
for _, _, history, trained in results:
    torch.testing.assert_close(history, alone, rtol=1e-4, atol=1e-6)
    for name, value in weights.items():
        torch.testing.assert_close(torch.from_numpy(trained[name]), torch.from_numpy(value), rtol=1e-4, atol=1e-6)
