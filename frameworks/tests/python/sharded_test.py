"""ShardedOptimizer: the numbers of one process with all ranks' batches, the same bits on every rank and as DistributedOptimizer with
one rank's fused step, and PyTorch's state."""

import copy
import io
import time
import warnings

import ranks

ranks.start(__file__, sizes=(1, 2, 3))

import torch

import xoe
import xoe.torch as hvd

hvd.init()
torch.set_num_threads(1)
RANK, SIZE = hvd.rank(), hvd.size()
# Gradients are averaged to the same bits; the step differs in its last ones, and so do the gradients that follow.
LAST_BITS = {"rtol": 1e-4, "atol": 1e-5}


class Net(torch.nn.Module):
    def __init__(self, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.conv = torch.nn.Conv2d(1, 4, 3)
        self.hidden = torch.nn.Linear(4 * 36, 33)
        self.branch = torch.nn.Linear(33, 33)  # used when asked to
        self.frozen = torch.nn.Linear(33, 33)
        self.last = torch.nn.Linear(33, 10)
        self.frozen.requires_grad_(False)
        self.conv.to(memory_format=torch.channels_last)

    def forward(self, x, branch=False):
        x = torch.relu(self.hidden(torch.relu(self.conv(x)).flatten(1)))
        return self.last(self.frozen(x + self.branch(x) if branch else x))


def loss_of(model, step, rank=RANK, branch=False):
    generator = torch.Generator().manual_seed(1000 * step + rank)
    images, labels = torch.randn(4, 1, 8, 8, generator=generator), torch.randint(0, 10, (4,), generator=generator)
    dtype = model.last.weight.dtype
    return torch.nn.functional.cross_entropy(model(images.to(dtype), branch).float(), labels)


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-3)


def adamw(parameters):
    return torch.optim.AdamW(parameters, lr=0.01, amsgrad=True)


def adam(parameters):
    return torch.optim.Adam(parameters, lr=0.01, weight_decay=0.1)


def plain_sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.1)


def bits(model):
    return torch.cat([p.detach().float().flatten() for p in model.parameters()])


def same_on_all_ranks(values):
    gathered = hvd.allgather(values.unsqueeze(0))
    assert all(torch.equal(gathered[0], other) for other in gathered)


def refused(kind, words, call):
    try:
        call()
    except kind as error:
        assert words in str(error), error
    else:
        raise AssertionError(f"no {kind.__name__} with {words!r}")


def train(make, steps=6, seed=None, clip=None, passes=1, branch=lambda step: False, whole=False):
    model = Net(RANK if seed is None else seed)
    model.frozen.load_state_dict(Net(0).frozen.state_dict())  # each rank keeps its own
    optimizer = hvd.ShardedOptimizer(make(filter(lambda p: p.requires_grad, model.parameters())))
    for step in range(steps):
        optimizer.zero_grad()
        for turn in range(passes):
            loss_of(model, step * passes + turn, branch=branch(step)).backward()
        if clip or whole:
            optimizer.synchronize()
        if clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
    return model, optimizer


def reference(make, steps=6, clip=None, passes=1, branch=lambda step, rank: False):
    model = Net(0)
    optimizer = make(filter(lambda p: p.requires_grad, model.parameters()))
    for step in range(steps):
        average_gradients(
            model,
            [[(step * passes + turn, rank, branch(step, rank)) for turn in range(passes)] for rank in range(SIZE)],
        )
        if clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
    return model


def average_gradients(model, batches):
    """Of several ranks, each with its batches, as the ranks together compute it."""
    sums = {}
    for rank in batches:
        model.zero_grad()
        for batch in rank:
            loss_of(model, *batch).backward()
        for p in model.parameters():
            if p.grad is not None:
                sums[p] = sums[p] + p.grad if p in sums else p.grad
    for p in model.parameters():
        p.grad = sums[p] / len(batches) if p in sums else None


def test_follows_one_process_with_the_joined_batch():
    for make in (sgd, adam, adamw, plain_sgd):
        model, optimizer = train(make)
        torch.testing.assert_close(bits(model), bits(reference(make)), **LAST_BITS)
        same_on_all_ranks(bits(model))
        again, other = train(make)
        assert torch.equal(bits(again), bits(model))
        other.close()
        optimizer.close()
        assert torch.equal(bits(again), bits(model))


def test_gradients_reduced_before_or_within_the_step_give_the_same_bits():
    for make in (sgd, adamw):
        model, _ = train(make)
        whole, _ = train(make, whole=True)
        assert torch.equal(bits(whole), bits(model))


def test_parameters_are_one_copy_and_start_as_rank_0s():
    if hvd.local_size() != SIZE:
        return  # a host's ranks share theirs
    model = Net(RANK)
    optimizer = hvd.DistributedOptimizer(sgd([p for p in model.parameters() if p.requires_grad]), sharded=True)
    assert torch.equal(model.hidden.weight, Net(0).hidden.weight)
    hvd.barrier()
    if RANK == 0:
        with torch.no_grad():
            model.hidden.weight[0, 0] = 42
    hvd.barrier()
    assert model.hidden.weight[0, 0] == 42
    assert model.conv.weight.stride() == Net(0).conv.weight.stride()
    hvd.barrier()
    optimizer.close()
    if RANK == 0:
        with torch.no_grad():
            model.hidden.weight[0, 0] = 7
    hvd.barrier()
    assert model.hidden.weight[0, 0] == (7 if RANK == 0 else 42)


def test_clipping():
    model, _ = train(sgd, clip=0.1)
    torch.testing.assert_close(bits(model), bits(reference(sgd, clip=0.1)), **LAST_BITS)
    same_on_all_ranks(bits(model))


def test_accumulation():
    model, _ = train(sgd, passes=3)
    torch.testing.assert_close(bits(model), bits(reference(sgd, passes=3)), **LAST_BITS)


def test_parameters_without_gradients():
    """Not changed where no rank uses them; a rank that does not counts as zeros."""
    model, _ = train(adamw, branch=lambda step: step in (2, 3) and SIZE - 1 == RANK)
    wanted = reference(adamw, branch=lambda step, rank: step in (2, 3) and rank == SIZE - 1)
    torch.testing.assert_close(bits(model), bits(wanted), **LAST_BITS)
    same_on_all_ranks(bits(model))


def test_groups_schedulers_and_hooks():
    def make(model):
        first = {"params": [model.conv.weight, model.hidden.weight], "lr": 0.2, "momentum": 0.5}
        return torch.optim.SGD([first, {"params": [model.conv.bias, model.last.weight]}], lr=0.05, momentum=0.9)

    for before in (False, True):
        results = []
        for sharded in (False, True):
            model = Net(0)
            optimizer = plain = make(model)
            scheduler = torch.optim.lr_scheduler.StepLR(plain, 2, 0.5) if before else None
            if sharded:
                optimizer = hvd.ShardedOptimizer(plain)
            scheduler = scheduler or torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
            calls = []
            optimizer.register_step_post_hook(lambda *_, calls=calls: calls.append(1))
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                for step in range(6):
                    optimizer.zero_grad()
                    if sharded:
                        loss_of(model, step).backward()
                    else:
                        average_gradients(model, [[(step, rank)] for rank in range(SIZE)])
                    optimizer.step()
                    scheduler.step()
            assert len(calls) == 6
            assert optimizer.param_groups[0]["lr"] == 0.2 / 8
            results.append(bits(model))
        torch.testing.assert_close(results[1], results[0], **LAST_BITS)


def test_state_is_pytorchs_in_both_directions():
    for make in (sgd, adamw):
        straight, _ = train(make, steps=6)
        model, optimizer = train(make, steps=3)
        saved = io.BytesIO()
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, saved)
        size = sum(t.numel() * 4 for t in model.state_dict().values())
        assert len(saved.getvalue()) < 4.2 * size + 60000, (len(saved.getvalue()), size)  # no more than these tensors
        hvd.barrier()
        loaded = torch.load(io.BytesIO(saved.getvalue()))
        # A plain optimizer goes on with it.
        plain_model = Net(1)
        plain_model.load_state_dict(loaded["model"])
        plain = make(filter(lambda p: p.requires_grad, plain_model.parameters()))
        plain.load_state_dict(copy.deepcopy(loaded["optimizer"]))  # it changes what it is given
        for step in range(3, 6):
            average_gradients(plain_model, [[(step, rank)] for rank in range(SIZE)])
            plain.step()
        torch.testing.assert_close(bits(plain_model), bits(straight), **LAST_BITS)
        # And a sharded one: loaded before or after it is made, over another state.
        for late in (False, True):
            model = Net(2)
            model.load_state_dict(loaded["model"])
            wrapped = make(filter(lambda p: p.requires_grad, model.parameters()))
            if not late:
                wrapped.load_state_dict(copy.deepcopy(loaded["optimizer"]))
            optimizer = hvd.ShardedOptimizer(wrapped)
            if late:
                loss_of(model, 99).backward()
                optimizer.step()
                hvd.barrier()
                model.load_state_dict(loaded["model"])
                optimizer.load_state_dict(loaded["optimizer"])
            for step in range(3, 6):
                optimizer.zero_grad()
                loss_of(model, step).backward()
                optimizer.step()
            assert torch.equal(bits(model), bits(straight)), (make, late)
            optimizer.close()


def test_state_of_halves_keeps_its_float32_copies():
    def begin(seed):
        model = Net(seed).to(torch.bfloat16)
        return model, hvd.ShardedOptimizer(adamw(filter(lambda p: p.requires_grad, model.parameters())))

    def run(model, optimizer, steps):
        for step in steps:
            optimizer.zero_grad()
            loss_of(model, step).backward()
            optimizer.step()

    straight, optimizer = begin(0)
    run(straight, optimizer, range(8))
    same_on_all_ranks(bits(straight))
    model, optimizer = begin(0)
    run(model, optimizer, range(4))
    parameters, state = copy.deepcopy(model.state_dict()), copy.deepcopy(optimizer.state_dict())
    assert state["state"][0]["exp_avg"].dtype == torch.float32
    resumed, optimizer = begin(1)
    resumed.load_state_dict(parameters)
    optimizer.load_state_dict(state)
    run(resumed, optimizer, range(4, 8))
    assert torch.equal(bits(resumed), bits(straight))
    # New values in place of the parameters replace the copies too.
    hvd.barrier()
    resumed.load_state_dict(parameters)
    hvd.barrier()
    for p in optimizer.param_groups[0]["params"]:
        p.grad = torch.zeros_like(p)
    optimizer.param_groups[0]["lr"] = 0.0
    optimizer.step()
    assert torch.equal(resumed.hidden.weight, parameters["hidden.weight"])


def test_grad_scaler():
    model = Net(0)
    optimizer = hvd.ShardedOptimizer(plain_sgd(filter(lambda p: p.requires_grad, model.parameters())))
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=1000)
    for step in range(3):
        optimizer.zero_grad()
        scaler.scale(loss_of(model, step)).backward()
        if step == 1 and RANK == SIZE - 1:
            model.last.bias.grad.fill_(float("inf"))
            model.last.bias.grad = model.last.bias.grad.clone()
        before = bits(model)
        hvd.barrier()
        optimizer.synchronize()
        scaler.unscale_(optimizer)
        with optimizer.skip_synchronize():
            scaler.step(optimizer)
        scaler.update()
        assert torch.equal(bits(model), before) == (step == 1)
    assert scaler.get_scale() == 512.0
    same_on_all_ranks(bits(model))


def test_closure():
    model = Net(0)
    optimizer = hvd.ShardedOptimizer(sgd(filter(lambda p: p.requires_grad, model.parameters())))

    def closure():
        optimizer.zero_grad()
        loss = loss_of(model, 0)
        loss.backward()
        return loss

    with torch.no_grad():
        wanted = sum(loss_of(model, 0, rank) for rank in range(SIZE)) / SIZE
    torch.testing.assert_close(optimizer.step(closure), wanted)


def test_several_threads_give_the_same_bits():
    straight, _ = train(adamw, steps=2)
    model = Net(0)
    optimizer = hvd.ShardedOptimizer(adamw(filter(lambda p: p.requires_grad, model.parameters())))
    for step in range(2):
        optimizer.zero_grad()
        loss_of(model, step).backward()
        torch.set_num_threads(3)  # of the update alone
        optimizer.step()
        torch.set_num_threads(1)
    assert torch.equal(bits(model), bits(straight))


def test_fused_optimizers_skip_steps_that_overflow():
    """GradScaler would leave unscaling and skipping to PyTorch's fused step, which a sharded optimizer does not run."""
    for make in (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW):
        model = Net(0)
        plain = make([p for p in model.parameters() if p.requires_grad], lr=0.1, fused=True)
        optimizer = hvd.ShardedOptimizer(plain)
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=1000)
        for step in range(2):
            optimizer.zero_grad()
            scaler.scale(loss_of(model, step)).backward()
            if step == 1 and RANK == SIZE - 1:
                model.last.bias.grad.fill_(float("inf"))
                model.last.bias.grad = model.last.bias.grad.clone()
            before = bits(model)
            hvd.barrier()
            optimizer.synchronize()
            scaler.step(optimizer)
            scaler.update()
            assert torch.equal(bits(model), before) == (step == 1), make
        assert scaler.get_scale() == 512.0
        assert not getattr(optimizer, "_step_supports_amp_scaling", False)
        optimizer.close()
        assert plain._step_supports_amp_scaling  # its own step takes over


def test_halves_from_a_checkpoint_without_float32_copies():
    def make(model):
        return adamw([p for p in model.parameters() if p.requires_grad])

    source = Net(3).to(torch.bfloat16)
    plain = make(source)
    loss_of(source, 0, rank=0).backward()
    plain.step()  # the branch has no gradient, and no state
    model = Net(0).to(torch.bfloat16)
    optimizer = hvd.ShardedOptimizer(make(model))
    loss_of(model, 0).backward()
    optimizer.step()
    hvd.barrier()
    model.load_state_dict(source.state_dict())
    optimizer.load_state_dict(copy.deepcopy(plain.state_dict()))
    for group in optimizer.param_groups:
        group.update(lr=0.0, weight_decay=0.0)
    loss_of(model, 1, branch=True).backward()
    optimizer.step()
    assert torch.equal(bits(model), bits(source))


def test_ranks_may_read_parameters_until_all_are_in_the_step():
    """After synchronize(), too: for a norm of parameters, say."""
    model = Net(0)
    optimizer = hvd.ShardedOptimizer(plain_sgd([p for p in model.parameters() if p.requires_grad]))
    loss_of(model, 0).backward()
    before = bits(model)
    hvd.barrier()
    optimizer.synchronize()
    if RANK == SIZE - 1:
        time.sleep(0.5)
    assert torch.equal(bits(model), before)
    optimizer.step()
    assert not torch.equal(bits(model), before)


def test_halves_changed_after_synchronize_keep_the_change():
    model = Net(0).to(torch.bfloat16)
    optimizer = hvd.ShardedOptimizer(plain_sgd([p for p in model.parameters() if p.requires_grad]))
    loss_of(model, 0).backward()
    optimizer.synchronize()
    hvd.barrier()
    with torch.no_grad():
        model.last.bias.fill_(7)
    hvd.barrier()
    optimizer.param_groups[0]["lr"] = 0.0
    optimizer.step()
    assert bool((model.last.bias == 7).all())


def test_gradients_set_to_zero_are_not_modified_ones():
    """The branch is used in the first backward pass only, and its gradient set to zero behind the optimizer's back."""
    model = Net(0)
    optimizer = hvd.ShardedOptimizer(plain_sgd([p for p in model.parameters() if p.requires_grad]))
    loss_of(model, 0, branch=True).backward()
    model.zero_grad(set_to_none=False)
    loss_of(model, 1).backward()
    optimizer.step()
    wanted = Net(0)
    plain = plain_sgd([p for p in wanted.parameters() if p.requires_grad])
    average_gradients(wanted, [[(1, rank)] for rank in range(SIZE)])
    plain.step()
    torch.testing.assert_close(bits(model), bits(wanted), **LAST_BITS)


def test_a_rank_that_has_joined():
    if SIZE == 1:
        return
    model = Net(0)
    optimizer = hvd.ShardedOptimizer(plain_sgd([p for p in model.parameters() if p.requires_grad]))
    loss_of(model, 0).backward()
    before = bits(model)
    saved = optimizer.state_dict()
    hvd.barrier()
    if RANK > 0:
        for call in (optimizer.step, optimizer.synchronize, lambda: optimizer.load_state_dict(saved), optimizer.close):
            refused(xoe.InvalidArgumentError, "a rank has joined", call)
        assert torch.equal(bits(model), before)
    hvd.join()
    optimizer.step()  # all are back
    assert not torch.equal(bits(model), before)
    same_on_all_ranks(bits(model))
    optimizer.close()


def test_what_it_refuses():
    model = Net(0)
    trained = [p for p in model.parameters() if p.requires_grad]
    unsupported, invalid = xoe.UnsupportedError, xoe.InvalidArgumentError
    refused(unsupported, "RMSprop", lambda: hvd.ShardedOptimizer(torch.optim.RMSprop(trained)))
    refused(unsupported, "float64", lambda: hvd.ShardedOptimizer(plain_sgd([torch.nn.Parameter(torch.ones(2).double())])))
    refused(invalid, "op must be", lambda: hvd.ShardedOptimizer(plain_sgd(trained), op=hvd.Max))
    refused(unsupported, "compression", lambda: hvd.DistributedOptimizer(
        plain_sgd(trained), compression=hvd.Compression.bf16, sharded=True))  # fmt: skip
    optimizer = hvd.ShardedOptimizer(plain_sgd(trained), named_parameters=model.named_parameters())
    refused(invalid, "already", lambda: hvd.ShardedOptimizer(optimizer))
    refused(unsupported, "add_param_group", lambda: optimizer.add_param_group({"params": [torch.nn.Parameter(torch.ones(2))]}))
    loss_of(model, 0).backward()
    if SIZE > 1:
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1e-3)
        refused(RuntimeError, "call optimizer.synchronize() first", optimizer.step)
    optimizer.zero_grad()
    model.frozen.requires_grad_(True)
    optimizer.param_groups[0]["params"].append(model.frozen.weight)
    refused(invalid, "other parameters", optimizer.step)
    optimizer.param_groups[0]["params"].pop()
    last = optimizer.param_groups[0]["params"].pop()
    optimizer.param_groups[0]["params"].append(torch.nn.Parameter(last.detach().clone()))
    refused(invalid, "other parameters", optimizer.step)
    optimizer.param_groups[0]["params"][-1] = last
    model.hidden.weight.data = model.hidden.weight.detach().clone()
    refused(invalid, "hidden.weight has other memory", optimizer.step)
    embedding = torch.nn.Embedding(10, 4, sparse=True)
    optimizer = hvd.ShardedOptimizer(plain_sgd(embedding.parameters()), named_parameters=embedding.named_parameters())
    refused(unsupported, "weight has a sparse gradient", lambda: embedding(torch.tensor([1])).sum().backward())


def test_ranks_that_differ():
    if SIZE == 1:
        return
    model = torch.nn.Linear(4, 3 + (RANK == 1))
    refused(xoe.MismatchError, "weight: torch.float32 [3, 4]", lambda: hvd.ShardedOptimizer(
        plain_sgd(model.parameters()), named_parameters=model.named_parameters()))  # fmt: skip
    model = Net(0)
    optimizer = hvd.ShardedOptimizer(plain_sgd(filter(lambda p: p.requires_grad, model.parameters())))
    loss_of(model, 0).backward()
    refused(xoe.InvalidArgumentError, "ranks differ", optimizer.synchronize if RANK == 1 else optimizer.step)
    # And where one of them computes other gradients, or drops them, after synchronize().
    for late in (lambda: loss_of(model, 1).backward(), optimizer.zero_grad):
        optimizer.zero_grad()
        loss_of(model, 0).backward()
        optimizer.synchronize()
        if RANK == 1:
            late()
        refused(xoe.InvalidArgumentError, "ranks differ", optimizer.step)
    optimizer.zero_grad()
    loss_of(model, 0).backward()
    optimizer.step()
    same_on_all_ranks(bits(model))


ranks.call_tests(globals())
