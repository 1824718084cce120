# Several models at once: an actor, two critics that learn from one loss, and target networks that follow them.
import copy
import itertools

import horovod.torch as hvd
import torch
from torch import nn


def mlp(inside, outside):
    return nn.Sequential(nn.Linear(inside, 24), nn.ReLU(), nn.Linear(24, outside))


hvd.init()
torch.manual_seed(0)
actor, critics = mlp(5, 2), nn.ModuleList([mlp(7, 1), mlp(7, 1)])
log_alpha = torch.zeros(1, requires_grad=True)
targets = copy.deepcopy(critics).requires_grad_(False)
for part in (actor, critics, targets):
    hvd.broadcast_parameters(part.state_dict(), root_rank=0)

actor_opt = hvd.DistributedOptimizer(torch.optim.Adam(actor.parameters(), 3e-3), actor.named_parameters())
critic_opt = hvd.DistributedOptimizer(torch.optim.Adam(critics.parameters(), 3e-3), critics.named_parameters())
alpha_opt = hvd.DistributedOptimizer(torch.optim.Adam([log_alpha], 3e-3), [("log_alpha", log_alpha)])

buffer = {"s": torch.randn(240, 5), "a": torch.rand(240, 2), "r": torch.randn(240, 1), "n": torch.randn(240, 5)}
losses = []
for step in range(10):
    mine = slice(step * 24 + hvd.rank(), (step + 1) * 24, hvd.size())
    s, a, r, n = (buffer[key][mine] for key in "sarn")
    with torch.no_grad():
        best = torch.min(*(target(torch.cat([n, actor(n).tanh()], 1)) for target in targets))
        wanted = r + 0.9 * best
    critic_loss = sum(nn.functional.mse_loss(critic(torch.cat([s, a], 1)), wanted) for critic in critics)
    critic_opt.zero_grad()
    critic_loss.backward()
    critic_opt.step()

    for p in critics.parameters():
        p.requires_grad = False
    if step % 2 == 0:  # the actor moves half as often
        action = actor(s).tanh()
        actor_loss = (log_alpha.exp().detach() * action.square().sum(1, keepdim=True)).mean()
        actor_loss = actor_loss - critics[0](torch.cat([s, action], 1)).mean()
        actor_opt.zero_grad()
        actor_loss.backward()
        actor_opt.step()
        alpha_opt.zero_grad()
        (log_alpha * (action.detach().square().mean() - 0.1)).sum().backward()
        alpha_opt.step()
    for p in critics.parameters():
        p.requires_grad = True
    with torch.no_grad():
        for ours, theirs in zip(targets.parameters(), critics.parameters(), strict=True):
            ours.lerp_(theirs, 0.05)
    losses.append(hvd.allreduce(critic_loss.detach()).item())
losses.append(log_alpha.item())
models = {"actor": actor, "critics": critics, "targets": targets}
assert all(p.requires_grad for p in itertools.chain(actor.parameters(), critics.parameters()))
