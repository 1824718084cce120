# bfloat16 with autocast, and gradients that travel as bfloat16.
import horovod.torch as hvd
import torch
from torch import nn

hvd.init()
torch.manual_seed(4)
model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, 4))
model = model.to(memory_format=torch.channels_last)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
optimizer = hvd.DistributedOptimizer(
    optimizer, named_parameters=model.named_parameters(), compression=hvd.Compression.fp16, gradient_predivide_factor=2.0
)

images = torch.randn(96, 3, 8, 8).contiguous(memory_format=torch.channels_last)
labels = images.mean(dim=(1, 2, 3)).mul(40).long().clamp(0, 3)
losses = []
for step in range(8):
    rows = torch.arange(96).roll(-24 * step)[:24][hvd.rank() :: hvd.size()]
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(images[rows])
    loss = nn.functional.cross_entropy(logits.float(), labels[rows])
    loss.backward()
    optimizer.step()
    losses.append(hvd.allreduce(loss.detach(), compression=hvd.Compression.fp16).item())
tolerance = 3e-2
