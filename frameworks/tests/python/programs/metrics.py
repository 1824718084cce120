# Metrics and decisions as objects: configuration from rank 0, a confusion matrix, ragged predictions, early stopping.
import collections
import random

import horovod.torch as hvd
import torch

Result = collections.namedtuple("Result", "epoch score")

hvd.init()
configuration = hvd.broadcast_object({"lr": 0.5, "seed": 31, "patience": 2} if hvd.rank() == 0 else None, root_rank=0)
random.seed(configuration["seed"])
torch.manual_seed(configuration["seed"])
x = torch.randn(96, 4)
y = (x.sum(1) > 0).long()
model = torch.nn.Linear(4, 2)
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=configuration["lr"]), model.named_parameters())
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
order = list(range(96))
losses, best, weights, bad = [], Result(-1, 0.0), None, 0
for epoch in range(8):
    random.shuffle(order)
    for first in range(0, 96, 24):
        rows = order[first : first + 24][hvd.rank() :: hvd.size()]
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
        optimizer.step()
    with torch.no_grad():
        guesses = model(x[hvd.rank() :: hvd.size()]).argmax(1)
    truth = y[hvd.rank() :: hvd.size()]
    confusion = torch.bincount(truth * 2 + guesses, minlength=4).reshape(2, 2)
    confusion = hvd.allreduce(confusion, op=hvd.Sum, name="confusion")
    wrong = hvd.allgather(torch.nonzero(truth != guesses), name="wrong")  # another length on each rank
    counts = hvd.allgather_object({"rank": hvd.rank(), "wrong": int((truth != guesses).sum())}, name="counts")
    assert sum(entry["wrong"] for entry in counts) == len(wrong) == confusion[0, 1] + confusion[1, 0]
    assert [entry["rank"] for entry in counts] == list(range(hvd.size()))
    score = confusion.diag().sum().item() / 96
    losses.append(score)
    if score > best.score:
        best, weights, bad = Result(epoch, score), {k: v.clone() for k, v in model.state_dict().items()}, 0
    else:
        bad += 1
    if hvd.broadcast_object(bad > configuration["patience"], root_rank=0, name="stop"):
        break
model.load_state_dict(weights)
assert set(hvd.allgather_object(best)) == {best}
