"""Parameters that no rank has used in a step: they stay where they are, as in one process, whatever reduces the gradients. Weight decay,
momentum and Adam's averages would move them with gradients of zeros."""

import ranks

ranks.start(__file__, sizes=(1, 2))

import torch

import xoe
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


class Tables(torch.nn.Module):
    """Sparse embeddings that every rank uses, one rank, in some steps one rank or none, and never."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.every, self.one, self.sometimes, self.never = (torch.nn.Embedding(6, 3, sparse=True) for _ in range(4))
        self.head = torch.nn.Linear(3, 2)

    def forward(self, step, rank):
        x = self.every(torch.tensor([rank, step % 6]))
        if rank == SIZE - 1:
            x = x + self.one(torch.tensor([step % 6, 5]))
        if step % 3 == 1 or (step % 3 == 2 and rank == 0):
            x = x + self.sometimes(torch.tensor([rank, rank]))
        return self.head(torch.tanh(x)).square().mean()


def train_tables(model, optimizers, loss_of_step, to_none):
    for step in range(STEPS):
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=to_none)
        loss_of_step(step).backward()
        for optimizer in optimizers:
            optimizer.step()
    return dict(model.named_parameters())


def test_sparse_embeddings_that_a_rank_does_not_touch():
    for kinds in ("momentum", "adam"):
        for to_none in (True, False):
            for options in ({}, {"sparse_as_dense": True}, {"compression": hvd.Compression.fp16}):
                finals = []
                for wrap in (False, True):
                    model = Tables()
                    tables = [p for name, p in model.named_parameters() if "head" not in name]
                    if kinds == "adam":
                        made = [torch.optim.SparseAdam(tables, lr=0.05), torch.optim.Adam(model.head.parameters(), lr=0.05)]
                    else:
                        made = [torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)]
                    if wrap:
                        made = [hvd.DistributedOptimizer(one, **options) for one in made]
                        finals.append(train_tables(model, made, lambda step, m=model: m(step, RANK), to_none))
                        for name in ("every", "one", "sometimes"):
                            grad = getattr(model, name).weight.grad
                            assert grad is None or grad.is_sparse, name
                        assert not to_none or model.never.weight.grad is None
                    else:
                        both = lambda step, m=model: sum(m(step, rank) for rank in range(SIZE)) / SIZE  # noqa: E731
                        finals.append(train_tables(model, made, both, to_none))
                    del made
                tolerance = 2e-2 if "compression" in options else 1e-5
                for name, wanted in finals[0].items():
                    text = f"{name}, {kinds}, {options}"
                    torch.testing.assert_close(
                        finals[1][name], wanted, rtol=tolerance, atol=tolerance, msg=lambda why, text=text: f"{text}: {why}"
                    )


def test_a_sparse_gradient_of_two_dimensions():
    """A rank without one has the others' sort of gradient afterwards."""
    table = torch.nn.Parameter(torch.ones(4, 3))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([table], lr=1.0))
    for step in range(3):
        optimizer.zero_grad()
        if RANK == 0 and step != 1:
            table.grad = torch.eye(4, 3).to_sparse(2)
        optimizer.step()
        assert table.grad is None if step == 1 else table.grad.sparse_dim() == 2
    torch.testing.assert_close(table.detach(), torch.ones(4, 3) - 2 / SIZE * torch.eye(4, 3))


def test_groups_with_sparse_gradients_are_refused_on_all_ranks():
    """Also on one that has not touched the embedding: no rank waits for another, and the next step is whole again."""
    torch.manual_seed(0)
    model = torch.nn.ModuleDict({"table": torch.nn.Embedding(6, 3, sparse=True), "head": torch.nn.Linear(3, 2)})
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=1.0), model.named_parameters(), groups=[list(model.parameters())]
    )
    if SIZE == 1:
        return
    for touches, dense in (((0,), ()), ((1,), ()), ((0, 1), ()), ((0,), (1,)), ((1,), (0,))):
        optimizer.zero_grad()
        rows = model["table"](torch.tensor([1, 2])) if RANK in touches else torch.ones(2, 3)
        rows = rows @ model["table"].weight[:3].T if RANK in dense else rows
        model["head"](rows).sum().backward()
        try:
            optimizer.step()
        except xoe.InvalidArgumentError as error:
            assert "table.weight has a sparse gradient, which groups do not support; leave it out of groups" in str(error)
        else:
            raise AssertionError(f"rank {RANK} made a step")
    optimizer.zero_grad()
    before = model["head"].bias.detach().clone()
    model["head"](torch.ones(2, 3)).sum().backward()
    optimizer.step()
    torch.testing.assert_close(model["head"].bias.detach(), before - 2)


def test_groups_with_sparse_gradients_as_dense_ones():
    """Also on a rank that has not touched the embedding, or computes its gradient late."""
    torch.manual_seed(0)
    model = torch.nn.ModuleDict({"table": torch.nn.Embedding(6, 3, sparse=True), "head": torch.nn.Linear(3, 2)})
    start = model["table"].weight.detach().clone()
    torch.nn.init.ones_(model["head"].weight)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model["table"].parameters(), lr=1.0),
        model["table"].named_parameters(),
        groups=[list(model["table"].parameters())],
        sparse_as_dense=True,
    )
    for touches in ((0,), tuple(range(SIZE)), (SIZE - 1,)):
        optimizer.zero_grad()
        rows = model["table"](torch.tensor([1, 2])) if RANK in touches else torch.ones(2, 3)
        model["head"](rows).sum().backward()
        optimizer.step()
        start[1:3] -= 2 * len(touches) / SIZE
    torch.testing.assert_close(model["table"].weight.detach(), start)


ranks.call_tests(globals())
