"""A training with an elastic state, a sampler and a ledger, for ledger_test.py: FOLDER EPOCHS. The model adds up what it has seen of
each record, so that its state and the ledger can be compared."""

import os
import sys
import time

import torch

import xoe.torch as hvd

RECORDS, BATCH = 240, 2
folder, epochs = sys.argv[1], int(sys.argv[2])
hvd.init()
print(f"pid {os.getpid()} started", flush=True)
seen = torch.nn.Linear(RECORDS, 1, bias=False)
with torch.no_grad():
    seen.weight.zero_()
ledger = hvd.elastic.Ledger(folder, RECORDS)
sampler = hvd.elastic.ElasticSampler(range(RECORDS), ledger=ledger)


@hvd.elastic.run
def train(state):
    while state.epoch < epochs:
        loader = torch.utils.data.DataLoader(range(RECORDS), batch_size=BATCH, sampler=state.sampler)
        for number, batch in enumerate(loader):
            mine = torch.zeros(1, RECORDS)
            mine[0, batch] = 1
            with torch.no_grad():
                seen.weight.add_(hvd.allreduce(mine, op=hvd.Sum, name="seen"))
            state.sampler.record_batch(number, len(batch))
            state.step += 1
            if state.step % 3 == 0:
                state.commit()
            print(f"step {state.step} by {hvd.size()}", flush=True)
            time.sleep(0.002)
        state.epoch += 1
        state.sampler.set_epoch(state.epoch)
        state.commit()


train(hvd.elastic.TorchState(model=seen, sampler=sampler, ledger=ledger, epoch=0, step=0))
assert torch.equal(seen.weight, torch.full((1, RECORDS), float(epochs))), seen.weight
print("each record once an epoch", flush=True)
