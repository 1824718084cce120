"""Steps in one pass over memory: PyTorch's numbers, whatever a program does with its optimizer."""

import copy
import itertools
from functools import partial

import ranks
from checks import raises

ranks.start(__file__)

import torch

import xoe.torch as hvd
from xoe.errors import UnsupportedError

hvd.init()
torch.set_num_threads(1)
RANK, SIZE = hvd.rank(), hvd.size()
SGDS = [
    {"momentum": momentum, "weight_decay": decay, "nesterov": nesterov, "maximize": maximize}
    for momentum, decay, nesterov, maximize in itertools.product((0.0, 0.9), (0.0, 0.01), (False, True), (False, True))
    if momentum or not nesterov
]


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3)
        self.first = torch.nn.Linear(8 * 36, 700)
        self.last = torch.nn.Linear(700, 4)

    def forward(self, x):
        x = self.first(self.conv(x).relu().flatten(1)).relu()
        return self.last(x.to(self.last.weight.dtype))


def network():
    torch.manual_seed(3)
    return Network()


def loss_of(model, step):
    generator = torch.Generator().manual_seed(10 * step + RANK)
    return model(torch.randn(4, 3, 8, 8, generator=generator)).float().pow(2).mean()


def distributed(model, plain, fused_step=None):
    return hvd.DistributedOptimizer(plain, named_parameters=model.named_parameters(), fused_step=fused_step)


def train(model, optimizer, steps=4, first=0):
    for step in range(first, first + steps):
        optimizer.zero_grad()
        loss_of(model, step).backward()
        optimizer.step()


def is_fused(optimizer):
    return optimizer._fused_step is not None and len(optimizer._fused_step._addresses) > 0


def same(one, other):
    for (name, p), q in zip(one.named_parameters(), other.parameters(), strict=True):
        assert torch.equal(p, q), f"{name}: {float((p - q).abs().max())} apart"


def both(make, run=train, change=lambda model: None):
    """The network after the fused step and after PyTorch's, and their optimizers."""
    made = []
    for fused_step in (None, False):
        model = network()
        change(model)
        optimizer = distributed(model, make(model), fused_step)
        run(model, optimizer)
        made += [model, optimizer]
    assert not is_fused(made[3])
    return made


def test_sgd_has_the_same_bits():
    for options in SGDS:
        one, optimizer, other, plain = both(lambda model, o=options: torch.optim.SGD(model.parameters(), lr=0.05, **o))
        assert is_fused(optimizer)
        same(one, other)
        mine, theirs = optimizer.state_dict(), plain.state_dict()
        assert mine["param_groups"] == theirs["param_groups"] and mine["state"].keys() == theirs["state"].keys()
        for index, state in mine["state"].items():
            assert torch.equal(state["momentum_buffer"], theirs["state"][index]["momentum_buffer"])


def test_adam_only_where_asked():
    for kind, options in (
        (torch.optim.Adam, {"amsgrad": True}),
        (torch.optim.AdamW, {}),
        (torch.optim.Adam, {"weight_decay": 0.1}),
    ):
        models = []
        for fused_step in (None, True):
            model = network()
            # With Adam's usual eps a gradient that is nearly zero is divided by itself, and its rounding becomes the step.
            optimizer = distributed(model, kind(model.parameters(), lr=0.01, eps=1e-4, **options), fused_step)
            train(model, optimizer)
            assert is_fused(optimizer) == bool(fused_step)
            models.append(model)
        for p, q in zip(*(model.parameters() for model in models), strict=True):
            torch.testing.assert_close(p, q, rtol=1e-4, atol=1e-5)


def test_schedulers_before_and_after():
    def run(model, optimizer):
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.1)
        for step in range(5):
            train(model, optimizer, 1, step)
            scheduler.step()

    one, optimizer, other, _ = both(lambda model: torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), run)
    assert is_fused(optimizer)
    same(one, other)

    models = []
    for fused_step in (None, False):
        model = network()
        plain = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        scheduler = torch.optim.lr_scheduler.StepLR(plain, 2, 0.1)  # replaces plain.step
        optimizer = distributed(model, plain, fused_step)
        for step in range(5):
            train(model, optimizer, 1, step)
            scheduler.step()
        models.append(model)
    same(*models)


def test_other_memory_and_types_take_the_own_step():
    def change(model):
        model.last.double()

    def make(model):
        parts = [model.conv, model.first, model.last]
        return torch.optim.SGD([{"params": part.parameters()} for part in parts], lr=0.05, momentum=0.9)

    one, optimizer, other, _ = both(make, change=change)
    assert len(optimizer._fused_step._addresses) == 4  # conv and first
    same(one, other)
    one, optimizer, other, _ = both(
        lambda model: torch.optim.SGD(model.parameters(), lr=0.05),
        change=lambda model: model.to(memory_format=torch.channels_last),
    )
    same(one, other)


def test_strides_of_one_by_one_convolutions():
    """A channels-last input gives a gradient of other strides than the weight, in the same order of memory."""
    weight = torch.nn.Parameter(torch.arange(12.0).reshape(4, 3, 1, 1))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=0.5), named_parameters=[("weight", weight)])
    for step in range(3):
        optimizer.zero_grad()
        x = torch.ones(2, 3, 5, 5).to(memory_format=torch.channels_last)
        torch.nn.functional.conv2d(x, weight).sum().backward()
        assert torch.equal(weight.grad, torch.full((4, 3, 1, 1), 50.0))
        optimizer.step()
        assert torch.equal(weight.detach().flatten(), torch.arange(12.0) - 25 * (step + 1))
    assert is_fused(optimizer)


def test_options_that_ask_for_another_step():
    for option in ("foreach", "fused", "differentiable"):
        model = network()
        optimizer = distributed(model, torch.optim.SGD(model.parameters(), lr=0.05, **{option: True}))
        loss_of(model, 0).backward()
        if option != "differentiable":
            optimizer.step()
        assert not is_fused(optimizer), option
        optimizer.synchronize()


def test_parameters_that_change_between_steps():
    def run(model, optimizer):
        train(model, optimizer, 3)
        optimizer.zero_grad()
        with torch.no_grad():  # other memory of the same form
            for p in model.parameters():
                p.data = p.data.clone()
        train(model, optimizer, 2, first=3)
        model.conv.requires_grad_(False)
        train(model, optimizer, 2, first=5)
        model.conv.requires_grad_(True)
        train(model, optimizer, 2, first=7)
        optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        train(model, optimizer, 2, first=9)

    one, optimizer, other, _ = both(lambda model: torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9), run)
    assert is_fused(optimizer)
    same(one, other)


def test_a_parameter_cut_in_place_is_updated_where_it_is_left():
    models = []
    for fused_step in (None, False):
        model = torch.nn.Linear(8, 6, bias=False)
        torch.nn.init.ones_(model.weight)
        whole = model.weight.data
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.5), fused_step=fused_step)
        for rows in (6, 6, 3):
            optimizer.zero_grad()
            if rows == 3:
                model.weight.data = whole[:3]
            model(torch.ones(1, 8)).sum().backward()
            optimizer.step()
        models.append(whole)
    assert torch.equal(*models), models


def test_gradients_may_be_missing_or_sparse():
    table, head = torch.nn.Embedding(20, 4, sparse=True), torch.nn.Linear(4, 2)
    unused = torch.nn.Linear(3, 3)
    start = copy.deepcopy(unused)
    groups = [{"params": part.parameters()} for part in (table, head, unused)]
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(groups, lr=0.1))
    before = table.weight.detach().clone()
    for _ in range(3):
        optimizer.zero_grad()
        head(table(torch.tensor([1, 2 + RANK]))).sum().backward()
        optimizer.step()
    assert is_fused(optimizer) and not torch.equal(before, table.weight)
    same(unused, start)


def test_amp_and_clipping():
    models = []
    for fused_step in (None, False):
        model = network()
        optimizer = distributed(model, torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9), fused_step)
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        for step in range(4):
            optimizer.zero_grad()
            scaler.scale(loss_of(model, step)).backward()
            optimizer.synchronize()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            with optimizer.skip_synchronize():
                scaler.step(optimizer)
            scaler.update()
        models.append(model)
    same(*models)


def test_autograd_notices_the_update():
    model = network()
    optimizer = distributed(model, torch.optim.SGD(model.parameters(), lr=0.05))
    train(model, optimizer, 2)
    kept = (model.last.weight * model.last.weight).sum()
    train(model, optimizer, 1, first=2)
    assert is_fused(optimizer)
    try:
        kept.backward()
    except RuntimeError as error:
        assert "modified by an inplace operation" in str(error)
    else:
        raise AssertionError("a stale value was used")


def test_classes_that_it_does_not_know():
    class Own(torch.optim.SGD):
        pass

    model = network()
    optimizer = distributed(model, Own(model.parameters(), lr=0.05))
    train(model, optimizer, 2)
    assert not is_fused(optimizer)
    for plain, options in (
        (Own(model.parameters(), lr=0.05), {}),
        (torch.optim.RMSprop(model.parameters()), {}),
        (torch.optim.SGD(model.parameters(), lr=0.05), {"op": hvd.Adasum}),
    ):
        raises(UnsupportedError, partial(hvd.DistributedOptimizer, plain, fused_step=True, **options), "fused_step")
    plain = torch.optim.SGD(model.parameters(), lr=0.05)
    refused = partial(hvd.DistributedOptimizer, plain, fused_step=False, sharded=True)
    raises(UnsupportedError, refused, "fused_step=False")


ranks.call_tests(globals())
