"""LARS and LAMB: their formulas, alone and over ranks, whole and sharded."""

import copy

import ranks
from checks import raises

ranks.start(__file__)

import torch

import xoe.torch as hvd
from xoe.errors import InvalidArgumentError, UnsupportedError
from xoe.torch.optim import LAMB, LARS

hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()


def network(dtype=torch.float32):
    torch.manual_seed(1)
    layers = (
        torch.nn.Conv2d(3, 8, 3),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(8 * 36, 300),
        torch.nn.Linear(300, 4),
    )
    return torch.nn.Sequential(*layers).to(dtype)


def batch(step, rank, dtype=torch.float32):
    generator = torch.Generator().manual_seed(100 * step + rank)
    return torch.randn(4, 3, 8, 8, generator=generator).to(dtype)


def groups(model):
    """Biases are left out of the layerwise scaling, and of weight decay."""
    weights = [p for p in model.parameters() if p.dim() > 1]
    biases = [p for p in model.parameters() if p.dim() == 1]
    return [{"params": weights}, {"params": biases, "layerwise": False, "weight_decay": 0.0}]


def lars(model, **options):
    return LARS(groups(model), lr=0.5, weight_decay=0.01, **{"trust_coefficient": 0.02, **options})


def lamb(model, **options):
    return LAMB(groups(model), lr=0.01, weight_decay=0.05, **options)


MAKERS = {
    "lars": lars,
    "lars with nesterov": lambda model: lars(model, nesterov=True),
    "lars without momentum": lambda model: lars(model, momentum=0.0),
    "lars that maximizes": lambda model: lars(model, maximize=True, dampening=0.1),
    "lamb": lamb,
    "lamb that maximizes": lambda model: lamb(model, maximize=True),
}


def loss_of(model, step, rank=RANK):
    return model(batch(step, rank, next(model.parameters()).dtype)).float().pow(2).mean()


def train(model, optimizer, steps=5, first=0):
    for step in range(first, first + steps):
        optimizer.zero_grad()
        loss_of(model, step).backward()
        optimizer.step()
    return model


def close(one, other, rtol=1e-5, atol=1e-6):
    for p, q in zip(one.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(p, q.to(p.dtype), rtol=rtol, atol=atol)


def by_the_paper(name, model, optimizer, steps):
    """In float64, with nothing of Xoe's: what the formulas say."""
    maximize = -1.0 if "maximizes" in name else 1.0
    params = list(model.parameters())
    first, second = {}, {}
    for step in range(steps):
        number = step + 1
        slopes = torch.autograd.grad(loss_of(model, step), params)
        for p, slope in zip(params, slopes, strict=True):
            group = next(group for group in optimizer.param_groups if any(p is q for q in group["params"]))
            g, w, decay = maximize * slope.detach(), p.detach(), group["weight_decay"]
            if "lars" in name:
                ratio = group["trust_coefficient"] * w.norm() / (g.norm() + decay * w.norm() + group["eps"])
                d = (g + decay * w) * (ratio if group["layerwise"] else 1.0)
                if group["momentum"]:
                    first[p] = d if p not in first else group["momentum"] * first[p] + (1 - group["dampening"]) * d
                    d = d + group["momentum"] * first[p] if group["nesterov"] else first[p]
            else:
                beta1, beta2 = group["betas"]
                first[p] = beta1 * first.get(p, 0) + (1 - beta1) * g
                second[p] = beta2 * second.get(p, 0) + (1 - beta2) * g * g
                d = first[p] / (1 - beta1**number) / ((second[p] / (1 - beta2**number)).sqrt() + group["eps"]) + decay * w
                d = d * (w.norm() / d.norm() if group["layerwise"] else 1.0)
            p.data = w - group["lr"] * d
    return model


def test_the_formulas():
    for name, make in MAKERS.items():
        exact = network(torch.float64)
        wanted = by_the_paper(name, exact, make(exact), 5)
        start = network()
        moved = sum(float((p - q).abs().sum()) for p, q in zip(start.parameters(), wanted.parameters(), strict=True))
        assert moved > 0.1, name
        for dtype in (torch.float32, torch.float64):  # one pass, and PyTorch's operations
            model = network(dtype)
            close(train(model, make(model)), wanted, rtol=2e-4 if dtype is torch.float32 else 1e-9)


def test_without_layers_it_is_sgd():
    one, other = network(), network()
    train(one, LARS(one.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01, layerwise=False))
    train(other, torch.optim.SGD(other.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01))
    close(one, other)


def test_large_parameters_in_parts_on_several_threads():
    for make in (lars, lamb):
        torch.manual_seed(2)
        exact = torch.nn.Linear(1000, 700)
        gradients = [torch.randn_like(p) for p in exact.parameters()]
        models = [copy.deepcopy(exact), copy.deepcopy(exact), exact.double()]
        for model, threads in zip(models, (1, 3, 1), strict=True):
            torch.set_num_threads(threads)
            optimizer = make(model)
            for p, gradient in zip(model.parameters(), gradients, strict=True):
                p.grad = gradient.to(p.dtype)
            optimizer.step()
        torch.set_num_threads(1)
        close(models[0], models[2])
        close(models[0], models[1], rtol=1e-6, atol=0)


def test_the_state_is_kept():
    for make in (lars, lamb):
        model = network()
        optimizer = make(model)
        train(model, optimizer, steps=3)
        other = copy.deepcopy(model)
        again = make(other)
        again.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        close(train(model, optimizer, first=3), train(other, again, first=3), rtol=0, atol=0)
    # Memory formats that differ from the saved one.
    model.to(memory_format=torch.channels_last)
    close(train(model, optimizer, first=8), train(other, again, first=8))


def test_ranks_train_one_model():
    for name, make in MAKERS.items():
        model = network()
        optimizer = hvd.DistributedOptimizer(make(model), named_parameters=model.named_parameters())
        train(model, optimizer)
        alone = network()
        plain = make(alone)
        for step in range(5):
            plain.zero_grad()
            sum(loss_of(alone, step, rank) for rank in range(SIZE)).div(SIZE).backward()
            plain.step()
        close(model, alone, rtol=1e-3, atol=2e-5)
        for p in model.parameters():
            assert torch.equal(hvd.broadcast(p.detach(), 0), p), name


def test_sharded():
    for name, make in MAKERS.items():
        model, whole = network(), network()
        optimizer = hvd.ShardedOptimizer(make(model), named_parameters=model.named_parameters())
        distributed = hvd.DistributedOptimizer(make(whole), named_parameters=whole.named_parameters())
        train(model, optimizer)
        close(model, train(whole, distributed), rtol=1e-4, atol=1e-6)
        saved = copy.deepcopy(optimizer.state_dict())
        plain = make(whole)
        plain.load_state_dict(saved)
        assert saved["state"].keys() == plain.state_dict()["state"].keys(), name
        # After synchronize() the step takes what is reduced.
        optimizer.zero_grad()
        loss_of(model, 9).backward()
        optimizer.synchronize()
        optimizer.step()
        distributed.zero_grad()
        loss_of(whole, 9).backward()
        distributed.step()
        close(model, whole, rtol=1e-4, atol=1e-6)
        optimizer.close()


def test_sharded_16_bits_are_updated_through_float32():
    for make in (lars, lamb):
        model = network(torch.bfloat16)
        start = copy.deepcopy(model)
        optimizer = hvd.ShardedOptimizer(make(model), named_parameters=model.named_parameters())
        train(model, optimizer)
        masters = [optimizer.state[p]["master_parameter"] for p in model.parameters()]
        for p, q, master in zip(model.parameters(), start.parameters(), masters, strict=True):
            assert torch.equal(master.bfloat16(), p) and not torch.equal(p, q)
        optimizer.close()


def test_what_is_wrong_is_said():
    model = network()
    raises(InvalidArgumentError, lambda: LARS(model.parameters(), lr=-1), "lr is -1")
    raises(InvalidArgumentError, lambda: LAMB(model.parameters(), eps=float("nan")), "eps is nan")
    raises(InvalidArgumentError, lambda: LAMB(model.parameters(), betas=(0.9, 1.0)), "betas are (0.9, 1.0)")
    raises(InvalidArgumentError, lambda: LARS(model.parameters(), lr=1, momentum=0.0, nesterov=True), "nesterov")
    table = torch.nn.Embedding(10, 4, sparse=True)
    optimizer = LARS(table.parameters(), lr=0.1)
    table(torch.tensor([1, 2])).sum().backward()
    raises(UnsupportedError, optimizer.step, "sparse=False")


ranks.call_tests(globals())
