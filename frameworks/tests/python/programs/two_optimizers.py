# Word vectors with sparse gradients in one optimizer, the dense rest of the model in another.
import horovod.torch as hvd
import torch
import torch.nn.functional as F

hvd.init()
torch.manual_seed(1234)
VOCABULARY, WIDTH = 50, 8


class Tagger(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(VOCABULARY, WIDTH, sparse=True)
        self.bag = torch.nn.EmbeddingBag(VOCABULARY, WIDTH, sparse=True, mode="mean")
        self.lstm = torch.nn.LSTM(WIDTH, 16, batch_first=True)
        self.out = torch.nn.Linear(16 + WIDTH, 6)

    def forward(self, sentence):
        hidden, _ = self.lstm(self.words(sentence))
        return self.out(torch.cat([hidden, self.bag(sentence)[:, None].expand(-1, sentence.shape[1], -1)], 2))


model = Tagger()
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
tables = [(n, p) for n, p in model.named_parameters() if n.startswith(("words", "bag"))]
dense = [(n, p) for n, p in model.named_parameters() if not n.startswith(("words", "bag"))]
sparse_optimizer = hvd.DistributedOptimizer(torch.optim.SparseAdam([p for _, p in tables], lr=0.01), named_parameters=tables)
optimizer = hvd.DistributedOptimizer(torch.optim.Adam([p for _, p in dense], lr=0.01), named_parameters=dense)

sentences = torch.randint(0, VOCABULARY, (96, 7))
tags = sentences % 6
losses = []
for step in range(8):
    rows = torch.arange(96).roll(-12 * step)[:24][hvd.rank() :: hvd.size()]
    sparse_optimizer.zero_grad()
    optimizer.zero_grad()
    loss = F.cross_entropy(model(sentences[rows]).flatten(0, 1), tags[rows].flatten())
    loss.backward()
    sparse_optimizer.step()
    optimizer.synchronize()
    torch.nn.utils.clip_grad_norm_([p for _, p in dense], 0.5)
    with optimizer.skip_synchronize():
        optimizer.step()
    losses.append(hvd.allreduce(loss.detach(), name=f"loss.{step}").item())
