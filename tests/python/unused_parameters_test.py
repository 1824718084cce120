"""Parameters that no rank has used in a step: they stay where they are, as in one process, whatever reduces the gradients. Weight decay,
momentum and Adam's averages would move them with gradients of zeros."""

import ranks

ranks.start(__file__, sizes=(1, 2), timeout=200)

import torch

import xoe.torch as hvd

hvd.init()
torch.set_num_threads(1)
RANK, SIZE = hvd.rank(), hvd.size()
STEPS = 8


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.never, self.sometimes, self.one_rank = (torch.nn.Linear(5, 5) for _ in range(4))

    def forward(self, x, step, rank):
        x = torch.tanh(self.first(x))
        if step % 3 == 1:
            x = x + self.sometimes(x)
        return self.one_rank(x) if rank == 0 and step % 2 == 0 else x


def loss_of(model, step, rank):
    generator = torch.Generator().manual_seed(100 * step + rank)
    return model(torch.randn(4, 5, generator=generator), step, rank).square().mean()


def adamw(parameters):
    return torch.optim.AdamW(parameters, lr=0.01, weight_decay=0.1)


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=0.1)


def alone(make, to_none=True):
    model = Net()
    optimizer = make(model.parameters())
    for step in range(STEPS):
        optimizer.zero_grad(set_to_none=to_none)
        (sum(loss_of(model, step, rank) for rank in range(SIZE)) / SIZE).backward()
        optimizer.step()
    return model


def together(make, to_none=True, groups=None, **options):
    model = Net()
    if groups == "lists":
        groups = [list(model.first.parameters()), [*model.never.parameters(), *model.sometimes.parameters()]]
    if groups:
        options["groups"] = groups
    optimizer = hvd.DistributedOptimizer(make(model.parameters()), model.named_parameters(), **options)
    for step in range(STEPS):
        if options.get("sharded"):
            optimizer.zero_grad()
        else:
            optimizer.zero_grad(set_to_none=to_none)
        loss_of(model, step, RANK).backward()
        optimizer.step()
        if to_none:
            assert all(p.grad is None for p in model.never.parameters()), "no rank has a gradient"
    return model


def check(make, to_none=True, tolerance=1e-5, **options):
    wanted = dict(alone(make, to_none).named_parameters())
    for name, found in together(make, to_none, **options).named_parameters():
        torch.testing.assert_close(found, wanted[name], rtol=tolerance, atol=tolerance, msg=lambda text, n=name: f"{n}: {text}")


def test_as_in_one_process():
    for make in (adamw, sgd):
        check(make)
        check(make, fused_step=False)
        check(make, sharded=True)


def test_groups_and_compression():
    check(sgd, groups=2)
    check(sgd, groups="lists")
    check(sgd, tolerance=2e-2, compression=hvd.Compression.fp16)


def test_gradients_that_are_zeros_already():
    """zero_grad(set_to_none=False) makes gradients that a step of one process uses."""
    check(adamw, to_none=False)


ranks.call_tests(globals())
