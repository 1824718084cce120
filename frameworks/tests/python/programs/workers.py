# DataLoader workers that are forked after init(), persistent and not, with a generator that seeds each of them.
import horovod.torch as hvd
import torch
from torch.utils.data import DataLoader, Dataset, get_worker_info
from torch.utils.data.distributed import DistributedSampler


class Squares(Dataset):
    def __len__(self):
        return 96

    def __getitem__(self, index):
        assert get_worker_info() is not None
        value = torch.linspace(-1, 1, 96)[index]
        return torch.stack([value, value**2, value**3]), (value**2).reshape(1)


hvd.init()
torch.manual_seed(3)
torch.set_num_threads(1)
dataset = Squares()
sampler = DistributedSampler(dataset, num_replicas=hvd.size(), rank=hvd.rank(), seed=5)
options = {"num_workers": 2, "multiprocessing_context": "fork", "prefetch_factor": 2}
training = DataLoader(dataset, 24 // hvd.size(), sampler=sampler, persistent_workers=True, **options)
validation = DataLoader(
    dataset, 24 // hvd.size(), sampler=DistributedSampler(dataset, hvd.size(), hvd.rank(), False), **options
)

model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
losses = []
for epoch in range(3):
    sampler.set_epoch(epoch)
    for features, target in training:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(features), target).backward()
        optimizer.step()
    with torch.no_grad():
        total = sum(torch.nn.functional.mse_loss(model(f), t, reduction="sum") for f, t in validation)
    losses.append(hvd.allreduce(total, op=hvd.Sum).item() / 96)
del training, validation
