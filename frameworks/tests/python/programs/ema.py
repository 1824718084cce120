# An exponential moving average of the weights, evaluated beside the model.
import copy

import torch
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

import xoe.torch as hvd


class OwnEma:
    """As many training scripts have it: a copy of the model, decayed towards it after every step."""

    def __init__(self, model, decay):
        self.module = copy.deepcopy(model).eval()
        self.decay = decay

    @torch.no_grad()
    def update(self, model):
        for ours, theirs in zip(self.module.state_dict().values(), model.state_dict().values(), strict=True):
            ours.copy_(self.decay * ours + (1 - self.decay) * theirs)


hvd.init()
torch.manual_seed(11)
data, labels = torch.randn(96, 1, 6, 6), torch.randint(0, 5, (96,))
model = torch.nn.Sequential(
    torch.nn.Conv2d(1, 4, 3), torch.nn.GroupNorm(2, 4), torch.nn.SiLU(), torch.nn.Flatten(), torch.nn.Linear(64, 5)
)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
own = OwnEma(model, 0.9)
ema = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))

optimizer = torch.optim.RMSprop(model.parameters(), lr=0.002)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
optimizer.register_step_post_hook(lambda *_: own.update(model))

losses = []
for step in range(12):
    batch = torch.arange(96).roll(-8 * step)[:24][hvd.rank() :: hvd.size()]
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(data[batch]), labels[batch])
    loss.backward()
    optimizer.step()
    ema.update_parameters(model)
    losses.append(hvd.allreduce(loss.detach()).item())

models = {"model": model, "own": own.module, "ema": ema.module}
