# Horovod's elastic form: commits, a failure that returns to the last one, and a sampler that knows what was processed.
import horovod.torch as hvd
import torch
from horovod.common.exceptions import HorovodInternalError

hvd.init()
torch.manual_seed(1)
dataset = torch.utils.data.TensorDataset(torch.randn(96, 4), torch.randn(96, 1))
model = torch.nn.Linear(4, 1)
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.05), model.named_parameters())
sampler = hvd.elastic.ElasticSampler(dataset, shuffle=False)
loader = torch.utils.data.DataLoader(dataset, batch_size=24 // hvd.size(), sampler=sampler)
losses, resets, failed = [], [], []


@hvd.elastic.run
def train(state):
    while state.epoch < 3:
        for batch, (data, target) in enumerate(loader, start=state.batch):
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(data), target)
            loss.backward()
            optimizer.step()
            if state.epoch == 1 and not failed:
                failed.append(batch)
                raise HorovodInternalError("as if a rank had been lost")
            state.losses = [*state.losses, hvd.allreduce(loss.detach(), name="loss").item()]
            state.sampler.record_batch(batch, 24 // hvd.size())
            state.batch = batch + 1
            state.commit()
        state.epoch, state.batch = state.epoch + 1, 0
        state.sampler.set_epoch(state.epoch)
        state.commit()
    return state.losses


state = hvd.elastic.TorchState(model=model, optimizer=optimizer, sampler=sampler, batch=0, epoch=0, losses=[])
state.register_reset_callbacks([lambda: resets.append(hvd.size())])
losses = train(state)
assert len(losses) == 12 and failed == [0] and len(resets) == 1, (losses, failed, resets)
