"""Gradients in buckets of programs that change the model, take gradients away, or give a step up."""

import warnings

import ranks

ranks.start(__file__)

import torch
from bucket_network import RANK, SIZE, in_buckets, in_their_places, loss_of, network, one_by_one, sgd, train
from checks import raises

import xoe.torch as hvd
from xoe.errors import UnavailableError
from xoe.torch.first_step import FirstStepWarning


def test_a_layer_that_all_ranks_freeze():
    model = network()
    optimizer = sgd(model)
    train(model, optimizer, steps=2)
    model.left.requires_grad_(False)
    optimizer.zero_grad()
    frozen = model.left.weight.clone()
    train(model, optimizer, first=2)
    assert model.left.weight.grad is None and torch.equal(model.left.weight, frozen)
    model.left.requires_grad_(True)
    train(model, optimizer, first=6)
    assert not torch.equal(model.left.weight, frozen)


def test_a_layer_that_one_rank_freezes():
    if SIZE == 1:
        return
    model = network()
    optimizer = sgd(model)
    train(model, optimizer, steps=2)
    optimizer.zero_grad()
    if RANK == 1:
        model.left.requires_grad_(False)
    loss_of(model, 2).backward()
    raises(hvd.MismatchError, optimizer.step, "left.weight", "rank 1")
    model.left.requires_grad_(True)
    hvd.barrier()
    optimizer.zero_grad()
    train(model, optimizer, first=3, check=False)


def test_layers_that_thaw():
    model = network()
    model.conv.requires_grad_(False)
    optimizer = sgd(model)
    train(model, optimizer, steps=3)
    before = len(in_buckets(optimizer))
    model.conv.requires_grad_(True)
    train(model, optimizer, first=3)
    assert SIZE == 1 or len(in_buckets(optimizer)) == before + 2 == 9


def test_parameters_that_come_later():
    model = network()
    own = [model.first.weight, model.first.bias, model.scale]
    plain = torch.optim.SGD(own, lr=0.01)
    optimizer = hvd.DistributedOptimizer(plain)
    model.conv.requires_grad_(False)
    model.left.requires_grad_(False)
    model.right.requires_grad_(False)
    train(model, optimizer, steps=2)
    assert SIZE == 1 or len(in_buckets(optimizer)) == 3
    model.left.requires_grad_(True)
    optimizer.add_param_group({"params": list(model.left.parameters())})
    train(model, optimizer, first=2)
    assert SIZE == 1 or len(in_buckets(optimizer)) == 5


def test_two_optimizers_of_one_model():
    if SIZE == 1:  # nothing is reduced
        return
    model = network()
    first = sgd(model)
    second = sgd(model)
    for step in range(2):  # in the first step both reduce the same gradient in place, in the second only one may
        loss_of(model, step).backward()
        try:
            first.step()
            second.step()
        except RuntimeError as error:
            assert "another DistributedOptimizer has this parameter too" in str(error), error
            break
    else:
        raise AssertionError("no error")
    hvd.shutdown()  # the ranks may have been stopped at different places
    hvd.init()


def test_another_type_or_format_after_the_first_step():
    model = network()
    optimizer = sgd(model)
    train(model, optimizer, steps=2)
    model.double()
    optimizer.zero_grad()
    for step in range(2, 4):
        optimizer.zero_grad()
        wanted = one_by_one(model, step)
        loss_of(model, step).backward()
        optimizer.step()
        for name, p in model.named_parameters():
            assert p.grad.dtype == torch.float64
            torch.testing.assert_close(p.grad, wanted[name], rtol=1e-5, atol=1e-6)
    model = network()
    optimizer = sgd(model)
    train(model, optimizer, steps=2)
    model.to(memory_format=torch.channels_last)
    optimizer.zero_grad()
    for step in range(2, 4):
        optimizer.zero_grad()
        wanted = one_by_one(model, step)
        loss_of(model, step).backward()
        optimizer.step()
        for name, p in model.named_parameters():
            torch.testing.assert_close(p.grad, wanted[name], rtol=1e-6, atol=1e-7)


def test_memory_that_the_program_moves():
    """Afterwards .grad of the step before lies elsewhere, and the next one in its bucket again."""
    for move in (lambda model: model.share_memory(), lambda model: model.double().float()):
        model = network()
        optimizer = sgd(model)
        train(model, optimizer, steps=2)
        move(model)
        optimizer.zero_grad()
        train(model, optimizer, first=2)
        assert SIZE == 1 or in_buckets(optimizer)
        move(model)
        train(model, optimizer, first=6, set_to_none=False)


def test_changes_in_flight_are_errors():
    if SIZE == 1:
        return
    model = network()
    optimizer = sgd(model)
    train(model, optimizer, steps=2)
    optimizer.zero_grad()
    loss_of(model, 2).backward()
    raises(RuntimeError, optimizer.zero_grad, "zero_grad")
    model.left.weight.grad.mul_(2)
    raises(RuntimeError, optimizer.step, "left.weight", "synchronize()")
    optimizer.zero_grad()
    loss_of(model, 3).backward()
    raises(RuntimeError, lambda: loss_of(model, 3).backward(), "backward_passes_per_step=1")
    hvd.barrier()
    raises(RuntimeError, optimizer.synchronize, "modified while it was being reduced")
    optimizer.zero_grad()
    train(model, optimizer, first=4, check=False)


def test_a_step_that_is_given_up():
    model = network()
    optimizer = sgd(model)
    train(model, optimizer, steps=2)
    optimizer.zero_grad()
    loss_of(model, 2).backward()
    optimizer.load_state_dict(optimizer.state_dict())
    optimizer.zero_grad()
    train(model, optimizer, first=3)


def test_pruned_parameters():
    """Their gradients have other shapes and the strides of before: smaller, then larger ones."""
    model = network()
    optimizer = sgd(model)
    train(model, optimizer, steps=2)
    biases = (model.left.bias, model.right.bias)
    for turn, rows in enumerate((4, 1, 16)):
        for layer in (model.left, model.right):
            layer.weight.data = torch.full((rows, 30), 0.01)
            layer.bias.data = torch.zeros(rows)
            for p in layer.parameters():
                p.grad = None
                optimizer.state.pop(p, None)
        train(model, optimizer, first=2 + 4 * turn)
        assert [bias.grad.shape for bias in biases] == [(rows,), (rows,)]
        assert SIZE == 1 or len(in_buckets(optimizer)) == 9


def test_gradients_cut_with_their_parameters():
    """The new gradient is a part of the memory of its slot."""
    model = network()
    optimizer = sgd(model)
    train(model, optimizer, steps=2)
    for p in model.left.parameters():
        p.grad.fill_(RANK + 1.0)
        part = p.grad[:4]
        p.data = p.data[:4].clone()
        p.grad = part
        optimizer.state.pop(p, None)
    optimizer.synchronize()
    if SIZE > 1:
        for p in model.left.parameters():
            assert torch.equal(p.grad, torch.full_like(p, (SIZE + 1) / 2))


def test_a_channels_last_parameter_of_another_shape():
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.Flatten()).to(memory_format=torch.channels_last)
    for groups in (None, 0):
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.0), groups=groups)
        for channels in (8, 2, 20):
            model[0].weight.data = torch.ones(channels, 3, 3, 3).to(memory_format=torch.channels_last)
            model[0].bias.data = torch.zeros(channels)
            for _ in range(3):
                optimizer.zero_grad()
                model(torch.full((1, 3, 8, 8), RANK + 1.0)).sum().backward()
                optimizer.step()
                torch.testing.assert_close(model[0].weight.grad, torch.full_like(model[0].weight, 36 * (SIZE + 1) / 2))
        del optimizer


def test_another_type_after_the_layout():
    for dtype in (torch.float64, torch.bfloat16):
        model = network()
        optimizer = sgd(model)
        train(model, optimizer, steps=2)
        model.to(dtype)
        optimizer.state.clear()
        train(model, optimizer, first=2, set_to_none=False)
        assert all(p.grad.dtype == dtype for p in model.parameters())
        assert SIZE == 1 or len(in_buckets(optimizer)) == 9
        optimizer.zero_grad()
        optimizer.step()  # without a backward pass
        train(model, optimizer, first=6)


def test_buckets_are_laid_out_again():
    """For gradients that did not fit into theirs: one by one in the first step, and in their buckets from the second on."""
    model = network()
    optimizer = sgd(model)
    for turn, dtype in enumerate((torch.float32, torch.float64, torch.bfloat16, torch.float32)):
        model.to(dtype)
        optimizer.state.clear()
        optimizer.zero_grad()
        for step in range(3):
            train(model, optimizer, first=3 * turn + step, steps=1)
            expected = 9 if step > 0 and SIZE > 1 else 0
            assert len(in_their_places(optimizer)) == expected, (dtype, step)
    rows = {model.left: 4, model.right: 4}
    for layer, count in rows.items():  # pruned layers
        layer.weight.data, layer.bias.data = torch.full((count, 30), 0.01), torch.zeros(count)
        for p in layer.parameters():
            p.grad = None
            optimizer.state.pop(p, None)
    train(model, optimizer, first=12, steps=1)
    assert not in_their_places(optimizer)  # all have new ones, of the next step
    train(model, optimizer, first=13, steps=1)
    assert len(in_their_places(optimizer)) == (9 if SIZE > 1 else 0)


def test_another_type_on_one_rank():
    if SIZE == 1:
        return
    model = network()
    optimizer = sgd(model)
    train(model, optimizer, steps=2)
    if RANK == 1:
        model.scale.data = model.scale.data.double()
    optimizer.zero_grad()
    for p in model.parameters():
        p.grad = torch.ones_like(p)
    raises(hvd.MismatchError, optimizer.step, "scale", "rank 1", "has with another type or shape now")
    model.scale.data = model.scale.data.float()
    model.scale.grad = None
    hvd.barrier()
    optimizer.zero_grad()
    train(model, optimizer, first=3, check=False)
    assert len(in_buckets(optimizer)) == 9


def test_gradients_of_a_frozen_layer_stay():
    model = network()
    optimizer = sgd(model)
    train(model, optimizer, steps=2)
    kept, own = model.left.weight.grad, model.right.weight.grad
    values = [kept.clone(), own.clone()]
    assert kept.any() and own.any()
    model.left.requires_grad_(False)
    model.right.requires_grad_(False)
    for p in model.parameters():
        if p is not model.right.weight:
            p.grad = None
    for step in range(2, 4):
        for p in model.parameters():
            if p.requires_grad:
                p.grad = None
        loss_of(model, step).backward()
        optimizer.synchronize()
        assert torch.equal(kept, values[0])
        assert model.right.weight.grad is own and torch.equal(own, values[1])


def test_a_frozen_gradient_that_only_the_parameter_holds():
    model = network()
    optimizer = sgd(model)
    train(model, optimizer, steps=2)
    value = model.left.weight.grad.clone()
    model.left.requires_grad_(False)
    for p in model.parameters():
        if p.requires_grad:
            p.grad = None
    loss_of(model, 2).backward()
    optimizer.synchronize()
    assert torch.equal(model.left.weight.grad, value)


def test_a_world_that_ends_before_the_step():
    if SIZE == 1:
        return
    model = network()
    optimizer = sgd(model)
    for first in (0, 3):
        train(model, optimizer, steps=2, first=first)
        optimizer.zero_grad()
        loss_of(model, first + 2).backward()
        hvd.barrier()  # else a rank that is still in backward() loses its peers there
        hvd.shutdown()
        hvd.init()
        before = [p.detach().clone() for p in model.parameters()]
        raises(UnavailableError, optimizer.step, "its world ended while gradients were being reduced")
        assert all(torch.equal(p, old) for p, old in zip(model.parameters(), before, strict=True))
        optimizer.zero_grad()


def test_an_error_on_one_rank_in_a_step_that_lays_out():
    if SIZE == 1:
        return
    model = network()
    optimizer = sgd(model)
    loss_of(model, 0).backward()
    if RANK == 0:
        model.left.weight.grad.mul_(2)
        raises(RuntimeError, optimizer.synchronize, "left.weight", "synchronize()")
    else:
        optimizer.synchronize()
        optimizer._synchronized = False
    assert len(in_buckets(optimizer)) == 9
    optimizer.zero_grad()
    train(model, optimizer, first=1)


def test_a_warning_of_the_first_step_that_is_an_error():
    if SIZE == 1:
        return
    model = network()
    optimizer = sgd(model)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for p in model.parameters():
            p.grad = torch.ones_like(p)
        if RANK == 0:
            raises(FirstStepWarning, optimizer.step, "same batch")
        else:
            optimizer.step()
    model.load_state_dict(network().state_dict())
    optimizer.state.clear()
    assert len(in_buckets(optimizer)) == 9
    optimizer.zero_grad()
    train(model, optimizer, first=1)


ranks.call_tests(globals())
