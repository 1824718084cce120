"""Gradients in buckets: the same bits as gradients that are reduced one by one, whatever a program does with them."""

import copy
import os
import warnings

import ranks

ranks.start(__file__, timeout=400)

import torch

import xoe.torch as hvd
from xoe.errors import UnavailableError
from xoe.torch.first_step import FirstStepWarning

# The buckets of a step of several sizes: several small ones, of several parameters.
os.environ["XOE_BUCKET_BYTES"] = "8K"
hvd.init()
torch.set_num_threads(1)
warnings.simplefilter("ignore", FirstStepWarning)
RANK, SIZE = hvd.rank(), hvd.size()


class Network(torch.nn.Module):
    """Several layers, one of which a step may leave out."""

    def __init__(self, dtype=torch.float32):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3, dtype=dtype)
        self.first = torch.nn.Linear(8 * 36, 30, dtype=dtype)
        self.left = torch.nn.Linear(30, 10, dtype=dtype)
        self.right = torch.nn.Linear(30, 10, dtype=dtype)
        self.scale = torch.nn.Parameter(torch.ones((), dtype=dtype))

    def forward(self, x, order="lr"):
        x = self.first(self.conv(x).relu().flatten(1)) * self.scale
        branches = {"l": self.left, "r": self.right}
        return sum(branches[side](x) for side in order)


class Mixed(Network):
    """Layers of three types."""

    def __init__(self):
        super().__init__()
        self.left.double()
        self.right.bfloat16()

    def forward(self, x, order="lr"):
        x = self.first(self.conv(x).relu().flatten(1)) * self.scale
        return self.left(x.double()).float() + self.right(x.bfloat16()).float()


def network(dtype=torch.float32, seed=0):
    torch.manual_seed(seed)
    return Network(dtype)


def batch(step, dtype=torch.float32, rank=RANK):
    generator = torch.Generator().manual_seed(1000 * step + rank)
    return torch.randn(4, 3, 8, 8, generator=generator).to(dtype)


def loss_of(model, step, order="lr"):
    return model(batch(step, model.scale.dtype), order).float().pow(2).mean()


def sgd(model, **options):
    plain = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    return hvd.DistributedOptimizer(plain, named_parameters=model.named_parameters(), **options)


def one_by_one(model, step, orders=("lr",), passes=1, **options):
    """This step's gradients as ranks reduced them before there were buckets, of a copy of the model."""
    alone = copy.deepcopy(model)
    for p in alone.parameters():
        p.grad = None
    for turn in range(passes):
        loss_of(alone, step * passes + turn, orders[turn % len(orders)]).backward()
    reduced = {}
    for name, p in alone.named_parameters():
        if p.requires_grad:
            grad = torch.zeros_like(p) if p.grad is None else p.grad
            if grad.dim() == 4 and not grad.is_contiguous():
                grad = grad.permute(0, 2, 3, 1)
                reduced[name] = hvd.allreduce(grad, name=f"alone.{name}", **options).permute(0, 3, 1, 2)
            else:
                reduced[name] = hvd.allreduce(grad, name=f"alone.{name}", **options)
    return reduced


def same_bits(model, wanted):
    for name, p in model.named_parameters():
        if name in wanted:
            assert torch.equal(p.grad, wanted[name]), f"{name}: {p.grad.flatten()[:4]} and not {wanted[name].flatten()[:4]}"
            assert p.grad.dtype == wanted[name].dtype and p.grad.shape == wanted[name].shape


def same_parameters(model):
    mine = torch.cat([p.detach().flatten().double() for p in model.parameters()])
    assert torch.equal(hvd.broadcast(mine, 0), mine)


def in_buckets(optimizer):
    return [gradient.name for gradient in optimizer._gradients if gradient.in_bucket]


def train(model, optimizer, steps=4, first=0, order="lr", set_to_none=True, check=True, **options):
    for step in range(first, first + steps):
        optimizer.zero_grad(set_to_none=set_to_none)
        wanted = one_by_one(model, step, (order,), **options) if check else {}
        loss_of(model, step, order).backward()
        optimizer.step()
        same_bits(model, wanted)
    same_parameters(model)


def raises(kind, call, *words):
    try:
        call()
    except kind as error:
        for word in words:
            assert word in str(error), f"{word!r} is not in: {error}"
        return
    raise AssertionError(f"{kind.__name__} was not raised")


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
    """On one rank, on all, and from one step to the next: they count as zeros."""
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
        assert all(not p.grad.any() for p in model.parameters())


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
