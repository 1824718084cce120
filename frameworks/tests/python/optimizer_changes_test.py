"""Parameters that come into an optimizer's groups, leave them, and take each other's place while it trains."""

import gc
import weakref

import ranks

ranks.start(__file__)

import torch

import xoe.torch as hvd

hvd.init()
torch.set_num_threads(1)
RANK, SIZE = hvd.rank(), hvd.size()
AVERAGE = (SIZE + 1) / 2  # of the gradients of backward_of()


def parts(count):
    """Layers that are the same on all ranks."""
    torch.manual_seed(0)
    return [torch.nn.Linear(3, 1) for _ in range(count)]


def backward_of(used):
    """The gradients of the weights are the rank's number, plus one."""
    sum(part(torch.full((1, 3), RANK + 1.0)).sum() for part in used).backward()


def step(optimizer, used):
    optimizer.zero_grad()
    backward_of(used)
    optimizer.step()
    for part in used:
        torch.testing.assert_close(part.weight.grad, torch.full((1, 3), AVERAGE))


def assert_same_everywhere(*used):
    for part in used:
        mine = torch.cat([part.weight.detach().flatten(), part.bias.detach()])
        assert torch.equal(hvd.broadcast(mine, 0), mine)


def test_parameters_that_come_later():
    torch.manual_seed(RANK)
    first, later, frozen = (torch.nn.Linear(3, 1) for _ in range(3))
    frozen.requires_grad_(False)
    for part in (first, later, frozen):
        hvd.broadcast_parameters(part.state_dict(), root_rank=0)
    made = torch.optim.SGD([*first.parameters(), *frozen.parameters()], lr=0.1)
    optimizer = hvd.DistributedOptimizer(made)
    optimizer.add_param_group({"params": list(later.parameters())})
    frozen.requires_grad_(True)
    for _ in range(3):
        optimizer.zero_grad()
        sum(part(torch.full((1, 3), RANK + 1.0)).sum() for part in (first, later, frozen)).backward()
        optimizer.step()
        for part in (first, later, frozen):
            torch.testing.assert_close(part.weight.grad, torch.full((1, 3), (SIZE + 1) / 2))


def test_parameters_that_come_through_the_plain_optimizer():
    torch.manual_seed(RANK)
    first, later = torch.nn.Linear(3, 1), torch.nn.Linear(3, 1)
    plain = torch.optim.SGD(first.parameters(), lr=0.1)
    optimizer = hvd.DistributedOptimizer(plain)
    plain.add_param_group({"params": [later.weight]})
    optimizer.param_groups[1]["params"].append(later.bias)
    for _ in range(2):
        optimizer.zero_grad()
        sum(part(torch.full((1, 3), RANK + 1.0)).sum() for part in (first, later)).backward()
        optimizer.step()
        torch.testing.assert_close(later.weight.grad, torch.full((1, 3), (SIZE + 1) / 2))
        torch.testing.assert_close(later.bias.grad, torch.ones(1))


def test_adasum_with_parameters_that_come_later():
    torch.manual_seed(0)
    first, later, frozen = (torch.nn.Linear(3, 1) for _ in range(3))
    frozen.requires_grad_(False)
    plain = torch.optim.SGD([*first.parameters(), *frozen.parameters()], lr=0.1)
    optimizer = hvd.DistributedOptimizer(plain, op=hvd.Adasum, backward_passes_per_step=2)
    schedule = torch.optim.lr_scheduler.StepLR(plain, 10)
    for step in range(4):
        if step == 1:
            optimizer.add_param_group({"params": list(later.parameters())})
            frozen.requires_grad_(True)
        optimizer.zero_grad()
        sum(part(torch.full((1, 3), RANK + 1.0)).sum() for part in (first, later, frozen)).backward()
        optimizer.step()
        schedule.step()
    for part in (first, later, frozen):
        mine = torch.cat([part.weight.detach().flatten(), part.bias.detach()])
        assert torch.equal(hvd.broadcast(mine, 0), mine)


def replacements(make):
    """A part goes, and another with as many parameters comes, in each of the ways that programs have."""
    body, old, *heads = parts(4)
    plain = torch.optim.SGD([{"params": body.parameters()}, {"params": old.parameters()}], lr=0.1)
    optimizer = make(plain)
    for _ in range(3):
        step(optimizer, [body, old])

    def through_add_param_group(head):
        del optimizer.param_groups[1]
        optimizer.add_param_group({"params": list(head.parameters())})

    def in_place(head):
        plain.param_groups[1]["params"] = list(head.parameters())

    for replace, head in zip((through_add_param_group, in_place), heads, strict=True):
        replace(head)
        for _ in range(3):
            step(optimizer, [body, head])
        assert_same_everywhere(body, head)
    return optimizer


def test_parameters_that_take_the_place_of_others():
    for passes in ({}, {"fused_step": True}, {"compression": hvd.Compression.fp16}, {"gradient_views": False}):
        replacements(lambda plain, passes=passes: hvd.DistributedOptimizer(plain, **passes))


def test_groups_go_on_without_a_parameter_that_has_gone():
    body, old, new = parts(3)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([*body.parameters(), *old.parameters()], lr=0.1), groups=1)
    step(optimizer, [body, old])
    optimizer.param_groups[0]["params"] = [*body.parameters(), *new.parameters()]
    old.zero_grad()
    for _ in range(3):
        step(optimizer, [body, new])
    assert_same_everywhere(body, new)


def test_a_parameter_that_goes_between_backward_and_step():
    body, old = parts(2)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([*body.parameters(), *old.parameters()], lr=0.1))
    for _ in range(2):
        step(optimizer, [body, old])
    optimizer.zero_grad()
    backward_of([body, old])
    optimizer.param_groups[0]["params"] = list(body.parameters())
    before = old.weight.detach().clone()
    optimizer.step()
    assert torch.equal(old.weight, before)
    old.weight.grad = old.bias.grad = None
    for _ in range(3):  # it is the program's own now
        optimizer.zero_grad()
        backward_of([body, old])
        optimizer.step()
        torch.testing.assert_close(body.weight.grad, torch.full((1, 3), AVERAGE))
    torch.testing.assert_close(old.weight.grad, torch.full((1, 3), 3 * (RANK + 1.0)))


def test_parameters_that_have_gone_are_not_kept():
    body, old = parts(2)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([*body.parameters(), *old.parameters()], lr=0.1))
    for _ in range(2):
        step(optimizer, [body, old])
    seen = [weakref.ref(p) for p in old.parameters()]
    optimizer.param_groups[0]["params"] = list(body.parameters())
    step(optimizer, [body])
    del old
    gc.collect()
    assert [p() for p in seen] == [None, None] or SIZE == 1  # one rank reduces nothing


def test_names_of_parameters_that_have_gone_are_not_kept():
    body = parts(1)[0]
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(body.parameters(), lr=0.1))
    counts = set()
    for _ in range(5):  # sparse gradients never lie in a bucket
        table = torch.nn.Embedding(4, 1, sparse=True)
        optimizer.param_groups[0]["params"] = [*body.parameters(), *table.parameters()]
        for _ in range(2):
            optimizer.zero_grad()
            backward_of([body])
            table(torch.tensor([RANK])).sum().backward()
            optimizer.step()
        counts.add(len(optimizer._buckets._seen) if optimizer._buckets is not None else 0)
    assert len(counts) == 1, counts


def test_adasum_with_parameters_that_take_the_place_of_others():
    body, old, new = parts(3)
    plain = torch.optim.SGD([*body.parameters(), *old.parameters()], lr=0.1)
    optimizer = hvd.DistributedOptimizer(plain, op=hvd.Adasum, backward_passes_per_step=2)
    for used, count in (([body, old], 3), ([body, new], 5)):
        plain.param_groups[0]["params"] = [p for part in used for p in part.parameters()]
        for _ in range(count):
            optimizer.zero_grad()
            backward_of(used)
            optimizer.step()
    assert_same_everywhere(body, old, new)


ranks.call_tests(globals())
