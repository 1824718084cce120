# A scripted and a traced module, trained through their parameters, and gradients that a tensor hook changes.
import warnings

import horovod.torch as hvd
import torch

warnings.filterwarnings("ignore", category=DeprecationWarning)


class Gated(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.left = torch.nn.Linear(6, 10)
        self.right = torch.nn.Linear(6, 10)

    def forward(self, x: torch.Tensor, turns: int) -> torch.Tensor:
        result = self.left(x)
        for _ in range(turns):
            result = result * torch.sigmoid(self.right(x))
        return result


hvd.init()
torch.manual_seed(37)
body = torch.jit.script(Gated())
head = torch.jit.trace(torch.nn.Linear(10, 2), torch.zeros(1, 10))
body.left.weight.register_hook(lambda grad: 2 * grad)
model = torch.nn.ModuleDict({"body": body, "head": head})
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
optimizer = torch.optim.SGD(model.parameters(), lr=0.2, foreach=False)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters(), op=hvd.Average)
x, y = torch.randn(120, 6), torch.randint(0, 2, (120,))
losses = []
for step in range(5):
    # Every rank computes the gradient of its own rows; a hook sees them before they are averaged.
    rows = torch.arange(step * 24, (step + 1) * 24)[hvd.rank() :: hvd.size()]
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(head(body(x[rows], 2)), y[rows])
    loss.backward()
    optimizer.step()
    losses.append(hvd.allreduce(loss.detach()).item())
