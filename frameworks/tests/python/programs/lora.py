# Low-rank adapters on a frozen network: 2,400 small tensors to reduce in each step.
import horovod.torch as hvd
import torch
from torch import nn


class Adapted(nn.Module):
    def __init__(self, linear, rank=2):
        super().__init__()
        self.linear = linear.requires_grad_(False)
        self.lora_a = nn.Parameter(torch.randn(rank, linear.in_features) * 0.05)
        self.lora_b = nn.Parameter(torch.zeros(linear.out_features, rank))

    def forward(self, x):
        return self.linear(x) + (x @ self.lora_a.T) @ self.lora_b.T


hvd.init()
torch.manual_seed(42)
base = nn.Sequential(*(nn.Linear(8, 8) for _ in range(1200)))
for layer in base:
    nn.init.eye_(layer.weight)
    nn.init.zeros_(layer.bias)
model = nn.Sequential(*(Adapted(layer) for layer in base))
trainable = [p for p in model.parameters() if p.requires_grad]
assert len(trainable) == 2400

hvd.broadcast_parameters(model.state_dict(), root_rank=0)
optimizer = torch.optim.AdamW(trainable, lr=1e-3)
optimizer = hvd.DistributedOptimizer(optimizer, [(n, p) for n, p in model.named_parameters() if p.requires_grad])
hvd.broadcast_optimizer_state(optimizer, root_rank=0)

x, y = torch.randn(72, 8), torch.randn(72, 8)
losses = []
for step in range(3):
    rows = slice(step * 24 + hvd.rank(), (step + 1) * 24, hvd.size())
    optimizer.zero_grad(set_to_none=True)
    loss = nn.functional.mse_loss(model(x[rows]), y[rows])
    loss.backward()
    optimizer.step()
    losses.append(hvd.allreduce(loss.detach(), name="loss").item())
adapters = {name: value for name, value in model.state_dict().items() if "lora" in name}
merged = torch.stack([layer.lora_b @ layer.lora_a for layer in model])
losses.append(merged.norm().item())
hvd.broadcast_parameters(adapters, root_rank=0)
