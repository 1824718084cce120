"""Training through xoe.torch, as Horovod's documentation writes it, against one process that sees all ranks' batches and against
torch.distributed with Gloo."""

import collections
import copy
import functools
import gc
import os
import pickle
import re
import warnings

import ranks
from checks import raises

ranks.start(__file__)

import torch
import torch.distributed as dist

import xoe
import xoe.torch as hvd

hvd.init()
torch.set_num_threads(1)
RANK, SIZE = hvd.rank(), hvd.size()
BATCH = 4


def network(seed=0):
    torch.manual_seed(seed)
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(4 * 36, 10), torch.nn.Linear(10, 10)
    )


def batch(step, rank):
    generator = torch.Generator().manual_seed(1000 * step + rank)
    return torch.randn(BATCH, 1, 8, 8, generator=generator), torch.randint(0, 10, (BATCH,), generator=generator)


def loss_of(model, step, rank=RANK):
    images, labels = batch(step, rank)
    return torch.nn.functional.cross_entropy(model(images), labels)


def reference(steps, make=lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), passes=1, clip=None):
    """What one process computes from the batches of all ranks: the parameters afterwards."""
    model = network()
    optimizer = make(model.parameters())
    for step in range(steps):
        optimizer.zero_grad()
        for turn in range(passes):
            sum(loss_of(model, step * passes + turn, rank) for rank in range(SIZE)).div(SIZE).backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
    return dict(model.named_parameters())


def same_parameters(model, wanted, **tolerance):
    for name, p in model.named_parameters():
        torch.testing.assert_close(p, wanted[name], **(tolerance or {"rtol": 1e-4, "atol": 1e-5}))
    # And the same bits on every rank.
    mine = torch.cat([p.detach().flatten() for p in model.parameters()])
    assert torch.equal(hvd.broadcast(mine, 0), mine)


def distributed(model, make=lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), **options):
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = make(model.parameters())
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    return hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters(), **options)


def train(model, optimizer, steps=5, passes=1):
    for step in range(steps):
        optimizer.zero_grad()
        for turn in range(passes):
            loss_of(model, step * passes + turn).backward()
        optimizer.step()


def test_it_trains_like_one_process():
    model = network(seed=RANK)  # the broadcast makes them equal
    optimizer = distributed(model)
    assert isinstance(optimizer, torch.optim.SGD) and type(optimizer).__name__ == "SGD"
    train(model, optimizer)
    if RANK == 0:
        same = network(seed=0)
        assert any(not torch.equal(p, q) for p, q in zip(model.parameters(), same.parameters(), strict=True))
    same_parameters(model, reference(5))


def test_the_same_losses_as_torch_distributed():
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    port = hvd.broadcast_object(ranks.free_port() if RANK == 0 else None, 0)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=RANK, world_size=SIZE)
    ours, theirs = network(), torch.nn.parallel.DistributedDataParallel(network())
    optimizer = distributed(ours)
    other = torch.optim.SGD(theirs.parameters(), lr=0.1, momentum=0.9)
    for step in range(100):
        losses = []
        for model, steps in ((ours, optimizer), (theirs, other)):
            steps.zero_grad()
            loss = loss_of(model, step)
            loss.backward()
            steps.step()
            losses.append(loss.item())
        assert abs(losses[0] - losses[1]) < 1e-6, f"step {step}: {losses}"
    dist.destroy_process_group()


def test_adam_and_state():
    def make(parameters):
        return torch.optim.Adam(parameters, lr=0.01)

    model = network()
    optimizer = distributed(model, make)
    train(model, optimizer)
    same_parameters(model, reference(5, make), rtol=1e-3, atol=1e-4)
    saved = copy.deepcopy(optimizer.state_dict())
    fresh = distributed(network(), make)
    fresh.load_state_dict(saved)
    assert fresh.state_dict()["state"][0]["step"] == 5
    # A state that only the root has reaches all.
    late = torch.optim.Adam(network().parameters(), lr=0.01 if RANK else 0.5)
    if RANK == 0:
        late.load_state_dict(saved)
    hvd.broadcast_optimizer_state(late, root_rank=0)
    for key, value in saved["state"][0].items():
        torch.testing.assert_close(late.state_dict()["state"][0][key], value)


def test_backward_passes_per_step():
    model = network()
    optimizer = distributed(model, backward_passes_per_step=3)
    train(model, optimizer, steps=3, passes=3)
    same_parameters(model, reference(3, passes=3))
    optimizer.set_backward_passes_per_step(1)
    if SIZE > 1:
        loss_of(model, 0).backward()
        raises(RuntimeError, lambda: loss_of(model, 1).backward(), "backward_passes_per_step=1")
        hvd.barrier()
        raises(RuntimeError, optimizer.synchronize, "modified while it was being reduced")


def test_groups():
    for groups in (1, 2, 100, "lists"):
        model = network()
        lists = [[model[0].weight, model[0].bias], [model[3].weight]] if groups == "lists" else groups
        optimizer = distributed(model, groups=lists)
        train(model, optimizer)
        same_parameters(model, reference(5))
        del optimizer
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = network()
        train(model, distributed(model, num_groups=2, gradient_predivide_factor=2.0))
    same_parameters(model, reference(5))


class OwnCompressor:
    """A program's own: double precision on the wire."""

    @staticmethod
    def compress(tensor):
        return tensor.double(), tensor.dtype

    @staticmethod
    def decompress(tensor, ctx):
        return tensor.to(ctx)


def test_groups_whose_results_are_copied():
    """The copy of one result is no change of the others' gradients."""
    for compression, tolerance in ((hvd.Compression.fp16, 2e-3), (hvd.Compression.bf16, 2e-2), (OwnCompressor, 1e-5)):
        for groups in (None, 1, 2):
            model = network()
            train(model, distributed(model, groups=groups, compression=compression))
            same_parameters(model, reference(5), rtol=tolerance, atol=tolerance)
    # Gradients that are not contiguous are reduced through copies, too.
    weights = [torch.nn.Parameter(torch.ones(4, 6)) for _ in range(3)]
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(weights, lr=1.0), list(zip("abc", weights, strict=True)), groups=1)
    for _ in range(2):
        optimizer.zero_grad()
        for weight in weights:
            weight.grad = torch.full((6, 4), float(RANK + 1)).t()
        optimizer.step()
    for weight in weights:
        torch.testing.assert_close(weight.detach(), torch.full((4, 6), 1.0 - (SIZE + 1)))


def test_predivide_and_sum():
    model = network()
    train(model, distributed(model, gradient_predivide_factor=float(SIZE)))
    same_parameters(model, reference(5))
    model = network()
    train(model, distributed(model, lambda p: torch.optim.SGD(p, lr=0.1 / SIZE), op=hvd.Sum))
    same_parameters(model, reference(5, lambda p: torch.optim.SGD(p, lr=0.1)))
    raises(ValueError, lambda: distributed(network(), op=hvd.Sum, gradient_predivide_factor=2.0), "Average")


def test_clipping():
    model = network()
    optimizer = distributed(model)
    for step in range(5):
        optimizer.zero_grad()
        loss_of(model, step).backward()
        optimizer.synchronize()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        with optimizer.skip_synchronize():
            optimizer.step()
    same_parameters(model, reference(5, clip=0.1))


def steps_counted():
    return int(re.search(r"^xoe_steps_total\S* (\d+)", xoe.metrics(), re.MULTILINE)[1])


def test_steps_are_counted():
    model = network()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    before = steps_counted()
    for step in range(3):
        optimizer.zero_grad()
        loss_of(model, step).backward()
        optimizer.step()
    assert steps_counted() == before + 3


def test_synchronize_then_step():
    model = network()
    optimizer = distributed(model, op=hvd.Sum)
    loss_of(model, 0).backward()
    optimizer.synchronize()
    once = [p.grad.clone() for p in model.parameters()]
    optimizer.step()  # without skip_synchronize(): not reduced a second time
    for p, grad in zip(model.parameters(), once, strict=True):
        assert torch.equal(p.grad, grad)


def test_compression():
    for compression, tolerance in ((hvd.Compression.fp16, 1e-2), (hvd.Compression.bf16, 5e-2)):
        model = network()
        train(model, distributed(model, compression=compression))
        same_parameters(model, reference(5), rtol=tolerance, atol=tolerance)


def test_gradients_that_are_in_use():
    if SIZE == 1:
        return
    model = network()
    optimizer = distributed(model)
    loss_of(model, 0).backward()
    raises(RuntimeError, optimizer.zero_grad, "zero_grad")
    model[0].weight.grad.mul_(2)
    raises(RuntimeError, optimizer.step, "0.weight", "synchronize()")
    hvd.barrier()
    optimizer.zero_grad(set_to_none=False)
    assert model[0].weight.grad.abs().sum() == 0


def test_parameters_that_one_rank_does_not_use():
    model = network()
    optimizer = distributed(model)
    optimizer.zero_grad()
    if RANK == 0:
        loss_of(model, 0).backward()
    optimizer.step()
    whole = network()
    loss_of(whole, 0, rank=0).backward()
    for p, q in zip(model.parameters(), whole.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad / SIZE)


def test_frozen_parameters():
    model = network()
    model[0].weight.requires_grad_(False)
    optimizer = distributed(model)
    train(model, optimizer)
    torch.testing.assert_close(model[0].weight, network()[0].weight)


def test_closures():
    model = network()
    optimizer = distributed(model, lambda p: torch.optim.LBFGS(p, lr=0.1, max_iter=3, line_search_fn="strong_wolfe"))

    def closure():
        optimizer.zero_grad()
        loss = loss_of(model, 0)
        loss.backward()
        return loss

    loss = optimizer.step(closure)
    mean = sum(loss_of(network(), 0, rank) for rank in range(SIZE)) / SIZE
    torch.testing.assert_close(loss, mean.detach())
    after = sum(loss_of(model, 0, rank) for rank in range(SIZE)) / SIZE
    assert after < mean
    mine = torch.cat([p.detach().flatten() for p in model.parameters()])
    assert torch.equal(hvd.broadcast(mine, 0), mine)


def test_sparse_gradients():
    for sparse_as_dense in (False, True):
        torch.manual_seed(0)
        table = torch.nn.Embedding(10, 3, sparse=True)
        before = table.weight.detach().clone()
        optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD(table.parameters(), lr=1.0), table.named_parameters(), sparse_as_dense=sparse_as_dense
        )
        table(torch.tensor([RANK, 9])).sum().backward()
        optimizer.step()
        wanted = before.clone()
        for rank in range(SIZE):
            wanted[rank] -= 1.0 / SIZE
            wanted[9] -= 1.0 / SIZE
        torch.testing.assert_close(table.weight.detach(), wanted)
        del optimizer


def test_adasum():
    model = network()
    optimizer = distributed(model, op=hvd.Adasum)
    first = sum(loss_of(model, 0, rank) for rank in range(SIZE)).item()
    for _ in range(10):
        optimizer.zero_grad()
        loss_of(model, 0).backward()
        optimizer.step()
    assert sum(loss_of(model, 0, rank) for rank in range(SIZE)).item() < first
    mine = torch.cat([p.detach().flatten() for p in model.parameters()])
    assert torch.equal(hvd.broadcast(mine, 0), mine)


def test_process_sets():
    if SIZE < 2:
        return
    own = [hvd.add_process_set([rank]) for rank in range(2)]
    pair = hvd.add_process_set([0, 1])
    model = network()
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters(), process_set=pair
    )
    loss_of(model, 0).backward()
    optimizer.step()
    whole = network()
    for rank in range(2) if RANK < 2 else [RANK]:
        (loss_of(whole, 0, rank) / (2 if RANK < 2 else 1)).backward()
    for p, q in zip(model.parameters(), whole.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad)
    for process_set in [*own, pair]:
        hvd.remove_process_set(process_set)


class Window(collections.namedtuple("Window", "values size kind")):
    """What an optimizer may keep for a parameter."""


def test_state_of_any_type():
    """PyTorch's load_state_dict rebuilds iterables from generators: named tuples and strings do not survive it."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    if RANK == 0:
        train(model, optimizer, steps=1)
        for index, p in enumerate(model.parameters()):
            optimizer.state[p]["window"] = Window(p.detach() + index, index, "ring")
            optimizer.state[p]["kind"] = ["ring", {"sizes": (1, index)}]
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)

    def check():
        for index, p in enumerate(model.parameters()):
            window = optimizer.state[p]["window"]
            # A class of __main__ is sent with the object, so it is another one here.
            assert type(window).__name__ == "Window" and window.size == index and window.kind == "ring", window
            assert torch.equal(hvd.broadcast(window.values, 0), window.values)
            assert optimizer.state[p]["kind"] == ["ring", {"sizes": (1, index)}]
            assert optimizer.state[p]["momentum_buffer"].shape == p.shape

    check()
    state = hvd.elastic.TorchState(optimizer=optimizer)
    for p in model.parameters():
        optimizer.state[p].clear()
    state.restore()
    check()


def test_state_keeps_its_types():
    """PyTorch's load_state_dict gives floating-point state the type of its parameter, which the root's keeps its own of."""
    model = network()
    model[4].bfloat16()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
    if RANK == 0:
        for p in model.parameters():
            other = torch.float32 if p.dtype is torch.bfloat16 else torch.bfloat16
            optimizer.state[p]["momentum_buffer"] = torch.full_like(p, 0.5)
            optimizer.state[p]["compensation"] = torch.full_like(p, 0.25, dtype=other)
            optimizer.state[p]["norms"] = [torch.tensor(1.0 + 2**-40, dtype=torch.float64), torch.tensor([3])]
            optimizer.state[p]["inner"] = {"scale": torch.tensor([1.0], dtype=torch.float16)}
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)

    def check():
        for p in model.parameters():
            state = optimizer.state[p]
            assert state["momentum_buffer"].dtype is p.dtype
            assert state["compensation"].dtype is (torch.float32 if p.dtype is torch.bfloat16 else torch.bfloat16)
            assert state["compensation"].float().eq(0.25).all() and state["compensation"].shape == p.shape
            assert state["norms"][0].item() == 1.0 + 2**-40 and state["norms"][1].dtype is torch.int64
            assert state["inner"]["scale"].dtype is torch.float16

    check()
    elastic = hvd.elastic.TorchState(optimizer=optimizer)
    optimizer.state.clear()
    elastic.restore()
    check()


def test_copies_say_what_to_do():
    for options in ({}, {"op": hvd.Adasum}, {"sharded": True}):
        model = network()
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), **options)
        train(model, optimizer, steps=2)
        for make in (pickle.dumps, copy.copy, copy.deepcopy, hvd.allgather_object):
            raises(hvd.XoeError, lambda make=make, one=optimizer: make(one), "cannot be pickled or copied", "state_dict()")
        # What the message says.
        other = copy.deepcopy(model)
        plain = torch.optim.SGD(other.parameters(), lr=1.0)
        plain.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        again = hvd.DistributedOptimizer(plain, **options)
        train(model, optimizer, steps=2)
        train(other, again, steps=2)
        for p, q in zip(model.parameters(), other.parameters(), strict=True):
            torch.testing.assert_close(p, q)
        if "sharded" in options:
            optimizer.close()
            again.close()


def test_a_copy_of_a_model_is_pytorchs():
    """Copies and pickles of parameters and gradients have memory of their own, which no rank sees. As in PyTorch, a deep copy of a
    module has no gradients, and one of a gradient has."""
    model = network()
    optimizer = distributed(model)
    train(model, optimizer, steps=3)
    grads = [p.grad.clone() for p in model.parameters()]
    copies = [copy.deepcopy(p.grad) for p in model.parameters()]
    pickled = pickle.loads(pickle.dumps([p.grad for p in model.parameters()]))
    other = copy.deepcopy(model)
    whole = pickle.loads(pickle.dumps(model))
    assert all(p.grad is None and not p._post_accumulate_grad_hooks for p in (*other.parameters(), *whole.parameters()))
    for p in other.parameters():
        p.grad = torch.zeros_like(p)
    optimizer.zero_grad(set_to_none=False)
    for wanted, one, another in zip(grads, copies, pickled, strict=True):
        assert torch.equal(one, wanted) and torch.equal(another, wanted)


def test_zero_gradients_of_a_new_optimizer():
    """As in Horovod, a broadcast of an optimizer that has not stepped leaves zeros; gradients that are there stay."""
    model = network()
    table = torch.nn.Embedding(5, 2, sparse=True)
    model[0].bias.grad = torch.ones_like(model[0].bias)
    model[3].weight.requires_grad_(False)
    optimizer = torch.optim.SGD([*model.parameters(), *table.parameters()], lr=0.1)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0, model=table)
    assert model[0].weight.grad.abs().sum() == 0 and model[3].weight.grad is None
    assert torch.equal(model[0].bias.grad, torch.ones_like(model[0].bias))
    assert table.weight.grad.is_sparse
    rows = torch.optim.SparseAdam(torch.nn.Embedding(5, 2, sparse=True).parameters())
    hvd.broadcast_optimizer_state(rows, root_rank=0)
    rows.step()


def test_two_models_with_the_same_names():
    one, other = network(), network()
    first, second = distributed(one), distributed(other)
    (loss_of(one, 0) + loss_of(other, 1)).backward()
    first.step()
    second.step()
    del first, second
    gc.collect()


def test_a_scheduler_and_mixed_precision():
    model = network()
    optimizer = distributed(model)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    scaler = torch.amp.GradScaler("cpu")
    for step in range(3):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = loss_of(model, step)
        scaler.scale(loss).backward()
        optimizer.synchronize()
        scaler.unscale_(optimizer)
        with optimizer.skip_synchronize():
            scaler.step(optimizer)
        scaler.update()
        schedule.step()
    assert abs(schedule.get_last_lr()[0] - 0.1 / 8) < 1e-9
    same_parameters(model, reference(3), rtol=0.1, atol=0.05)


def plain_optimizer(model):
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def test_schedulers_of_the_plain_optimizer():
    """A scheduler replaces `step` of the optimizer that it gets, which shares its attributes with the distributed one."""
    for order in ("before", "after", "both", "of the distributed one"):
        model = network()
        plain = plain_optimizer(model)
        make = functools.partial(torch.optim.lr_scheduler.StepLR, step_size=1, gamma=0.5)
        schedules = [make(plain)] if order in ("before", "both") else []
        optimizer = hvd.DistributedOptimizer(plain, named_parameters=model.named_parameters())
        if order in ("after", "of the distributed one"):
            schedules.append(make(plain if order == "after" else optimizer))
        if order == "both":
            schedules.append(torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5**step))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for step in range(3):
                optimizer.zero_grad()
                loss_of(model, step).backward()
                optimizer.step()
                schedules[0].step()
        assert abs(optimizer.param_groups[0]["lr"] - 0.1 / 8) < 1e-9, order
        whole = network()
        other = torch.optim.SGD(whole.parameters(), lr=0.1, momentum=0.9)
        schedule = make(other)
        for step in range(3):
            other.zero_grad()
            sum(loss_of(whole, step, rank) for rank in range(SIZE)).div(SIZE).backward()
            other.step()
            schedule.step()
        same_parameters(model, dict(whole.named_parameters()))


def test_functions_that_others_set():
    """On the plain optimizer they become the inner function; on the distributed one they call it."""
    for kind in ("plain", "distributed"):
        model = network()
        plain = plain_optimizer(model)
        calls = []
        counted = {}
        optimizer = hvd.DistributedOptimizer(plain, named_parameters=model.named_parameters())
        target = plain if kind == "plain" else optimizer
        for name in ("step", "zero_grad", "load_state_dict", "add_param_group"):
            counted[name] = getattr(target, name)

            def count(*arguments, _name=name, **options):
                calls.append(_name)
                return counted[_name](*arguments, **options)

            setattr(target, name, count)
        train(model, optimizer, steps=3)
        same_parameters(model, reference(3))
        optimizer.load_state_dict(optimizer.state_dict())
        more = torch.nn.Linear(2, 1)
        optimizer.add_param_group({"params": list(more.parameters())})
        assert calls == ["zero_grad", "step"] * 3 + ["load_state_dict", "add_param_group"], calls
        if kind == "distributed":
            del optimizer.step
        else:
            del plain.step
        optimizer.step()
        assert calls.count("step") == 3


def test_hooks_of_a_step_run_once():
    model = network()
    optimizer = distributed(model)
    seen = []
    optimizer.register_step_pre_hook(lambda *_: seen.append(model[0].weight.grad.clone()))
    optimizer.register_step_post_hook(lambda *_: seen.append("after"))
    for step in range(2):
        optimizer.zero_grad()
        loss_of(model, step).backward()
        optimizer.step()
        assert len(seen) == 2 and seen[1] == "after"
        assert torch.equal(hvd.broadcast(seen[0], 0), seen[0])  # reduced already
        seen.clear()
        optimizer.load_state_dict(optimizer.state_dict())  # torch wraps `step` for hooks here


def test_an_optimizer_that_is_garbage_on_one_rank_first():
    """Names count the optimizers that live: the same ones on every rank, whenever Python collects garbage."""
    gc.collect()
    gc.disable()
    for _ in range(2):
        model = network()
        optimizer = distributed(model)
        optimizer.itself = optimizer  # a cycle, as functions that are set on it make one
        train(model, optimizer, steps=2)
        same_parameters(model, reference(2))
        del optimizer
        if RANK == 0:
            gc.collect()
    gc.enable()


def test_compiled_checkpointed_and_channels_last():
    compiled = network()
    optimizer = distributed(compiled)
    faster = torch.compile(compiled, backend="eager")
    for step in range(3):
        optimizer.zero_grad()
        loss_of(faster, step).backward()
        optimizer.step()
    same_parameters(compiled, reference(3))
    model = network().to(memory_format=torch.channels_last)
    train(model, distributed(model), steps=3)
    same_parameters(model, reference(3))
    model = network()
    optimizer = distributed(model)
    for step in range(3):
        optimizer.zero_grad()
        images, labels = batch(step, RANK)
        output = torch.utils.checkpoint.checkpoint(model, images, use_reentrant=False)
        torch.nn.functional.cross_entropy(output, labels).backward()
        optimizer.step()
    same_parameters(model, reference(3))


def test_names():
    model = network()

    def make(names):
        return hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), named_parameters=names)

    raises(ValueError, lambda: make([("a", p) for p in model.parameters()]), "twice", "a")
    raises(ValueError, lambda: make(list(model.named_parameters())[:2]), "not in named_parameters")
    raises(ValueError, lambda: make(list(model.parameters())), "pairs")
    optimizer = make(None)
    loss_of(model, 0).backward()
    optimizer.step()


ranks.call_tests(globals())
