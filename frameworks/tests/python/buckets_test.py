"""Gradients in buckets: the same bits as gradients that are reduced one by one, whatever their sort and order."""

import copy
import os
import warnings

import ranks

ranks.start(__file__)

import torch
from bucket_network import RANK, SIZE, Mixed, in_buckets, loss_of, network, one_by_one, same_bits, same_parameters, sgd, train

import xoe.torch as hvd


def test_the_first_step_decides_and_the_second_has_buckets():
    model = network()
    optimizer = sgd(model)
    train(model, optimizer, steps=1)
    expected = len(list(model.parameters())) if SIZE > 1 else 0
    assert len(in_buckets(optimizer)) == expected
    train(model, optimizer, steps=4, first=1)
    if SIZE > 1:
        places = [p.grad.data_ptr() for p in model.parameters()]
        train(model, optimizer, steps=2, first=5)
        assert places == [p.grad.data_ptr() for p in model.parameters()]
        # The last layer's gradients are ready first.
        assert model.conv.weight.grad.data_ptr() != places[2]


def test_a_lone_rank_has_no_hooks():
    alone = hvd.add_process_set([0]) if SIZE > 1 else hvd.global_process_set
    model = network()
    optimizer = sgd(model, process_set=alone)
    assert all(not p._post_accumulate_grad_hooks for p in model.parameters())
    for step in range(2):
        optimizer.zero_grad()
        loss_of(model, step).backward()
        before = [p.grad for p in model.parameters()]
        optimizer.step()
        assert all(p.grad is grad for p, grad in zip(model.parameters(), before, strict=True))
    if SIZE > 1:
        hvd.remove_process_set(alone)


def test_every_type_and_format():
    for dtype in (torch.float16, torch.bfloat16, torch.float64):
        model = network(dtype)
        train(model, sgd(model))
    torch.manual_seed(0)
    model = Mixed()
    optimizer = sgd(model)
    train(model, optimizer)
    assert SIZE == 1 or len(in_buckets(optimizer)) == 9
    model = network().to(memory_format=torch.channels_last)
    optimizer = sgd(model)
    train(model, optimizer)
    assert model.conv.weight.grad.is_contiguous(memory_format=torch.channels_last)
    assert SIZE == 1 or len(in_buckets(optimizer)) == 9


def test_reductions_and_compression():
    for options in ({"op": hvd.Sum}, {"op": hvd.Max}, {"op": hvd.Min}):
        model = network()
        train(model, sgd(model, **options), **options)
    model = network()
    optimizer = sgd(model, gradient_predivide_factor=4.0)
    train(model, optimizer, prescale_factor=0.25, postscale_factor=4.0)
    assert SIZE == 1 or in_buckets(optimizer)
    model = network()
    optimizer = sgd(model, compression=hvd.Compression.bf16)
    for step in range(3):
        optimizer.zero_grad()
        loss_of(model, step).backward()
        optimizer.step()
    assert SIZE == 1 or in_buckets(optimizer)
    same_parameters(model)
    for compression in (hvd.Compression.fp16, hvd.Compression.top_k(0.5), hvd.Compression.fp8, hvd.Compression.power_sgd(2)):
        model = network()
        optimizer = sgd(model, compression=compression)
        train(model, optimizer, check=False)
        assert not in_buckets(optimizer)  # they look at each gradient as a whole


def test_compression_has_the_bits_of_one_by_one():
    wire = hvd.Compression.bf16.wire
    model = network()
    optimizer = sgd(model, compression=hvd.Compression.bf16)
    for step in range(3):
        alone = copy.deepcopy(model)
        for p in alone.parameters():
            p.grad = None
        loss_of(alone, step).backward()
        wanted = {
            name: hvd.allreduce_async_(p.grad, name=f"bf16.{name}", wire=wire).wait() for name, p in alone.named_parameters()
        }
        optimizer.zero_grad()
        loss_of(model, step).backward()
        optimizer.step()
        if SIZE > 1:
            same_bits(model, wanted)


def test_accumulation():
    model = network()
    optimizer = sgd(model, backward_passes_per_step=3)
    for step in range(4):
        optimizer.zero_grad(set_to_none=step % 2 == 0)
        wanted = one_by_one(model, step, passes=3)
        for turn in range(3):
            loss_of(model, step * 3 + turn).backward()
        optimizer.step()
        same_bits(model, wanted)
    same_parameters(model)
    assert SIZE == 1 or in_buckets(optimizer)


def test_zeroed_gradients_stay_where_they_are():
    model = network()
    optimizer = sgd(model)
    train(model, optimizer, set_to_none=False)
    if SIZE > 1:
        views = [p.grad for p in model.parameters()]
        train(model, optimizer, first=4, set_to_none=False)
        assert all(p.grad is view for p, view in zip(model.parameters(), views, strict=True))


def test_kept_gradients_keep_their_values():
    model = network()
    optimizer = sgd(model)
    kept, values = [], []
    for step in range(4):
        optimizer.zero_grad()
        loss_of(model, step).backward()
        optimizer.step()
        kept.append([p.grad for p in model.parameters()])
        values.append([p.grad.clone() for p in model.parameters()])
    for grads, wanted in zip(kept, values, strict=True):
        assert all(torch.equal(grad, value) for grad, value in zip(grads, wanted, strict=True))


def test_gradients_of_their_own():
    model = network()
    optimizer = sgd(model, gradient_views=False)
    aliases, values = [], []
    for step in range(4):
        optimizer.zero_grad()
        wanted = one_by_one(model, step)
        loss_of(model, step).backward()
        optimizer.step()
        same_bits(model, wanted)
        aliases.append(model.first.weight.grad.view(-1))
        values.append(model.first.weight.grad.flatten().clone())
    assert all(torch.equal(alias, value) for alias, value in zip(aliases, values, strict=True))
    assert SIZE == 1 or in_buckets(optimizer)


def test_gradients_that_the_program_sets():
    model = network()
    optimizer = sgd(model)
    train(model, optimizer, steps=2)
    optimizer.zero_grad()
    for p in model.parameters():
        p.grad = torch.full_like(p, RANK + 1.0)
    optimizer.step()
    for p in model.parameters():
        assert torch.equal(p.grad, torch.full_like(p, (SIZE + 1) / 2))
    # Kept from an earlier step, and used again.
    kept = [p.grad for p in model.parameters()]
    train(model, optimizer, steps=1, first=2)
    optimizer.zero_grad()
    for p, grad in zip(model.parameters(), kept, strict=True):
        p.grad = grad
    optimizer.step()
    for p in model.parameters():
        torch.testing.assert_close(p.grad, torch.full_like(p, (SIZE + 1) / 2))


def test_another_order_on_each_rank():
    model = network()
    optimizer = sgd(model)
    for step in range(4):
        train(model, optimizer, steps=1, first=step, order="lr" if RANK % 2 == step % 2 else "rl")
    assert SIZE == 1 or in_buckets(optimizer)


def test_unused_parameters():
    """On one rank, and from one step to the next: they count as zeros. On all: they have no gradient."""
    model = network()
    optimizer = sgd(model)
    orders = ["lr", "l", "r", "l" if RANK == 0 else "r", "l" if RANK == 0 else "lr", "lr"]
    for step, order in enumerate(orders):
        optimizer.zero_grad()
        wanted = one_by_one(model, step, (order,))
        loss_of(model, step, order).backward()
        optimizer.step()
        if SIZE > 1:
            same_bits(model, wanted)
    same_parameters(model)
    optimizer.zero_grad()
    optimizer.step()  # without a backward pass
    if SIZE > 1:
        assert all(p.grad is None for p in model.parameters())


def test_sparse_gradients_beside_dense_ones():
    for sparse_as_dense in (False, True):
        torch.manual_seed(0)
        table, head = torch.nn.Embedding(10, 3, sparse=True), torch.nn.Linear(3, 2)
        plain = torch.optim.SGD([*table.parameters(), *head.parameters()], lr=1.0)
        optimizer = hvd.DistributedOptimizer(plain, sparse_as_dense=sparse_as_dense)
        for step in range(3):
            optimizer.zero_grad()
            head(table(torch.tensor([RANK, 9]))).sum().backward()
            wanted = hvd.allreduce(table.weight.grad.to_dense(), name="table")
            optimizer.step()
            assert table.weight.grad.is_sparse
            torch.testing.assert_close(table.weight.grad.to_dense(), wanted)
            torch.testing.assert_close(head.bias.grad, torch.full((2,), 2.0))
            assert SIZE == 1 or step == 0 or len(in_buckets(optimizer)) == 2
        del optimizer


def test_tied_parameters():
    torch.manual_seed(0)
    table, head = torch.nn.Embedding(20, 8), torch.nn.Linear(8, 20, bias=False)
    head.weight = table.weight
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(table.parameters(), lr=0.1))
    for step in range(3):
        optimizer.zero_grad()
        words = torch.tensor([RANK, step, 7])
        alone = table.weight.detach().clone().requires_grad_()
        torch.nn.functional.cross_entropy(torch.nn.functional.embedding(words, alone) @ alone.T, words).backward()
        torch.nn.functional.cross_entropy(head(table(words)), words).backward()
        wanted = hvd.allreduce(alone.grad, name="tied")
        optimizer.step()
        assert torch.equal(table.weight.grad, wanted)


def test_groups_stay_together():
    model = network()
    optimizer = sgd(model, groups=[[model.first.weight, model.first.bias]])
    train(model, optimizer)
    assert SIZE == 1 or len(in_buckets(optimizer)) == 7
    model = network()
    optimizer = sgd(model, groups=2)
    train(model, optimizer)
    assert not in_buckets(optimizer)


def test_process_sets():
    if SIZE < 2:
        return
    pair = hvd.add_process_set([0, 1])
    rest = hvd.add_process_set([0, SIZE - 1])
    for process_set in (pair, rest):
        model = network()
        optimizer = sgd(model, process_set=process_set)
        for step in range(3):
            optimizer.zero_grad()
            wanted = one_by_one(model, step, process_set=process_set) if process_set.included() else {}
            loss_of(model, step).backward()
            optimizer.step()
            same_bits(model, wanted)
        assert bool(in_buckets(optimizer)) == process_set.included()
    hvd.remove_process_set(pair)
    hvd.remove_process_set(rest)


def test_several_optimizers():
    models = [network(seed=0), network(seed=1)]
    optimizers = [sgd(model) for model in models]
    for step in range(4):
        for model, optimizer in zip(models, optimizers, strict=True):
            optimizer.zero_grad()
            wanted = one_by_one(model, step)
            loss_of(model, step).backward()
            optimizer.step()
            same_bits(model, wanted)
    # Both in flight at once.
    for step in range(4, 7):
        wanted = [one_by_one(model, step) for model in models]
        for model, optimizer in zip(models, optimizers, strict=True):
            optimizer.zero_grad()
            loss_of(model, step).backward()
        for optimizer in reversed(optimizers):
            optimizer.step()
        for model, bits in zip(models, wanted, strict=True):
            same_bits(model, bits)


def test_ranks_with_less_data():
    """Rank 0 has joined before the others' first step, then ranks run out of data at other times."""
    model = network()
    optimizer = sgd(model)
    for epoch in range(3):
        for step in range((0 if epoch == 0 else 2) + RANK):
            optimizer.zero_grad()
            loss_of(model, 10 * epoch + step).backward()
            optimizer.step()
        hvd.join()
        hvd.broadcast_parameters(model.state_dict(), root_rank=SIZE - 1)
        hvd.broadcast_optimizer_state(optimizer, root_rank=SIZE - 1)
    assert SIZE == 1 or in_buckets(optimizer)
    train(model, optimizer, first=100)


def test_gradients_with_a_graph():
    model = network()
    optimizer = sgd(model)
    train(model, optimizer, steps=2)
    optimizer.zero_grad()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loss_of(model, 2).backward(create_graph=True)
    assert model.first.weight.grad.requires_grad
    optimizer.synchronize()
    wanted = one_by_one(model, 2)
    same_bits(model, wanted)
    optimizer.zero_grad()
    train(model, optimizer, first=3)


def test_closures():
    model = network()
    plain = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3)
    optimizer = hvd.DistributedOptimizer(plain, named_parameters=model.named_parameters())

    def closure():
        optimizer.zero_grad()
        loss = loss_of(model, 0)
        loss.backward()
        return loss

    for _ in range(3):
        optimizer.step(closure)
    same_parameters(model)
    assert SIZE == 1 or in_buckets(optimizer)


def test_without_buckets():
    """XOE_BUCKET_BYTES=0, of rank 0, and a new world."""
    model = network()
    optimizer = sgd(model)
    train(model, optimizer, steps=2)
    hvd.shutdown()
    os.environ["XOE_BUCKET_BYTES"] = "0" if RANK == 0 else "8K"
    hvd.init()
    optimizer.zero_grad()
    train(model, optimizer, first=2)
    assert not in_buckets(optimizer)
    hvd.shutdown()
    os.environ["XOE_BUCKET_BYTES"] = "25M" if RANK == 0 else "0"
    hvd.init()
    optimizer.zero_grad()
    train(model, optimizer, first=6)
    assert SIZE == 1 or len(in_buckets(optimizer)) == 9


ranks.call_tests(globals())
