# Layers that are frozen, that no rank uses, that are used in some steps only, and weights that two layers share.
import horovod.torch as hvd
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 12)
        self.frozen = nn.Linear(12, 12).requires_grad_(False)
        self.sometimes = nn.ModuleList(nn.Linear(12, 12) for _ in range(3))
        self.never = nn.Linear(12, 12)
        self.decoder = nn.Linear(12, 20, bias=False)
        self.decoder.weight = self.embed.weight
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, tokens, step):
        x = torch.tanh(self.frozen(self.embed(tokens)))
        self.seen += 1
        return self.decoder(x + self.sometimes[step % 3](x))


hvd.init()
torch.manual_seed(9)
model = Net()
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
optimizer = torch.optim.Adagrad(model.parameters(), lr=0.1)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
hvd.broadcast_optimizer_state(optimizer, root_rank=0)

tokens = torch.randint(0, 20, (168, 4))
losses = []
for step in range(7):
    rows = tokens[step * 24 : (step + 1) * 24][hvd.rank() :: hvd.size()]
    optimizer.zero_grad()
    logits = model(rows[:, :-1], step)
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())
    loss.backward()
    optimizer.step()
    losses.append(hvd.allreduce(loss.detach()).item())
assert model.decoder.weight is model.embed.weight and model.seen == 7
