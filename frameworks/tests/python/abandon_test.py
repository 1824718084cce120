"""Steps that are given up between backward and step(), on all ranks or on one: no rank learns from them, and the next step is as if they
had not been.
"""

import warnings

import ranks

ranks.start(__file__, sizes=(1, 2))

import torch

import xoe.torch as hvd

hvd.init()
torch.set_num_threads(1)
RANK, SIZE = hvd.rank(), hvd.size()
OPTIONS = (
    {},
    {"groups": 2},
    {"compression": hvd.Compression.fp16},
    {"compression": hvd.Compression.bf16},
    {"backward_passes_per_step": 2},
    {"gradient_views": False, "fused_step": False},
)
ABANDONED = "another rank has abandoned this step, so that no rank updates its parameters"


class Broken(Exception):
    """What a batch may raise in backward."""


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second, self.third = (torch.nn.Linear(5, 5) for _ in range(3))

    def forward(self, x, breaks=False):
        x = torch.tanh(self.first(x))
        if breaks:
            x.register_hook(_break)  # the gradients of two layers are there by then, and are being reduced
        return self.third(torch.tanh(self.second(x))).square().mean()


def _break(_):
    raise Broken


def batch(step, rank):
    return torch.randn(4, 5, generator=torch.Generator().manual_seed(100 * step + rank))


def adam(model):
    return torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=0.1)


def alone(steps):
    """What one process learns from these steps."""
    model = Net()
    optimizer = adam(model)
    for step in steps:
        optimizer.zero_grad()
        (sum(model(batch(step, rank)) for rank in range(SIZE)) / SIZE).backward()
        optimizer.step()
    return model


def learn(model, optimizer, steps, passes=1):
    for step in steps:
        optimizer.zero_grad()
        for _ in range(passes):
            (model(batch(step, RANK)) / passes).backward()
        optimizer.step()


def start_step(model, step, breaks, passes=1):
    """A backward pass, whose exception the program catches."""
    try:
        for _ in range(passes):
            model(batch(step, RANK), breaks).backward()
    except Broken:
        assert breaks
    else:
        assert not breaks


def check(give_up, skipped):
    """Steps before, between and after those that are given up."""
    for options in OPTIONS:
        passes = options.get("backward_passes_per_step", 1)
        model = Net()
        optimizer = hvd.DistributedOptimizer(adam(model), model.named_parameters(), **options)
        for step in range(7):
            if step in skipped:
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    give_up(model, optimizer, step, passes)
                if SIZE > 1:
                    assert all(p.grad is None for p in model.parameters()), options
            else:
                learn(model, optimizer, [step], passes)
        tolerance = 5e-2 if "compression" in options else 1e-5
        wanted = alone([step for step in range(7) if step not in skipped])
        for (name, p), other in zip(model.named_parameters(), wanted.parameters(), strict=True):
            text = f"{name}, {options}"
            torch.testing.assert_close(p, other, rtol=tolerance, atol=tolerance, msg=lambda why, text=text: f"{text}: {why}")
            assert torch.equal(hvd.broadcast(p.detach(), 0), p), text


def test_all_ranks_load_a_state():
    def give_up(model, optimizer, step, passes):
        model(batch(step, RANK)).backward()
        if passes > 1:
            model(batch(step, RANK)).backward()
        optimizer.load_state_dict(optimizer.state_dict())

    check(give_up, (0, 3, 4))


def test_all_ranks_skip_a_batch():
    def give_up(model, optimizer, step, passes):
        start_step(model, step, True, passes)
        optimizer.abandon()

    check(give_up, (0, 1, 4))


def test_a_batch_that_breaks_in_forward():
    def give_up(model, optimizer, step, passes):
        if RANK > 0:
            start_step(model, step, step == 4, passes)
        optimizer.abandon()

    check(give_up, (0, 2, 4))


def test_one_rank_skips_a_batch():
    """The others find it in step() or synchronize(), which warn."""

    def give_up(model, optimizer, step, passes):
        optimizer.zero_grad()
        broken = RANK == step % SIZE
        start_step(model, step, broken, passes)
        if broken:
            optimizer.abandon()
            return
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            if step == 3:
                optimizer.synchronize()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                with optimizer.skip_synchronize():
                    optimizer.step()
            else:
                optimizer.step()
        texts = [(one.category, str(one.message), one.filename) for one in found]
        assert texts == [(RuntimeWarning, ABANDONED, __file__)]

    check(give_up, (0, 3, 4))


def test_one_rank_loads_a_state():
    def give_up(model, optimizer, step, passes):
        optimizer.zero_grad()
        start_step(model, step, False, passes)
        if RANK == 0:
            optimizer.load_state_dict(optimizer.state_dict())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if RANK > 0:
                optimizer.step()

    check(give_up, (0, 3))


def test_the_first_step_is_still_compared():
    if SIZE == 1:
        return
    model = Net()
    torch.nn.init.constant_(model.third.bias, float(RANK))
    optimizer = hvd.DistributedOptimizer(adam(model), model.named_parameters())
    for step in range(2):
        model(batch(step, RANK)).backward()
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            if step == 0:
                optimizer.abandon()
            else:
                optimizer.step()
        assert len(found) == (step if RANK == 0 else 0) and all("broadcast_parameters" in str(one.message) for one in found)


def test_zero_grad_names_it():
    if SIZE == 1:
        return
    for options in (*OPTIONS, {"groups": 1}):  # of one group a part waits for the rest
        passes = options.get("backward_passes_per_step", 1)
        model = Net()
        optimizer = hvd.DistributedOptimizer(adam(model), model.named_parameters(), **options)
        for _ in range(passes - 1):
            model(batch(0, RANK)).backward()
        start_step(model, 0, True)
        try:
            optimizer.zero_grad()
        except RuntimeError as error:
            assert "to skip the step, call abandon() instead" in str(error), error
        else:
            raise AssertionError(f"zero_grad() in flight, {options}")
        optimizer.abandon()
        learn(model, optimizer, range(3), passes)


def test_zero_grad_begins_the_accumulation_again():
    model = Net()
    optimizer = hvd.DistributedOptimizer(adam(model), model.named_parameters(), backward_passes_per_step=2)
    learn(model, optimizer, [0], 2)
    start_step(model, 5, RANK == 0)  # the first of two passes, which one rank does not end
    learn(model, optimizer, [1], 2)
    for p, other in zip(model.parameters(), alone(range(2)).parameters(), strict=True):
        torch.testing.assert_close(p, other)


def test_gradients_that_are_reduced_already():
    """There is nothing under way any more, so that a rank waits for no other."""
    model = Net()
    optimizer = hvd.DistributedOptimizer(adam(model), model.named_parameters())
    model(batch(0, RANK)).backward()
    optimizer.synchronize()
    optimizer.abandon()
    assert all(p.grad is None for p in model.parameters())
    learn(model, optimizer, range(1, 3))
    for p, other in zip(model.parameters(), alone(range(1, 3)).parameters(), strict=True):
        torch.testing.assert_close(p, other)


def test_other_optimizers():
    for options in ({"sharded": True}, {"op": hvd.Adasum}):
        model = Net()
        optimizer = hvd.DistributedOptimizer(adam(model), model.named_parameters(), **options)
        start_step(model, 0, True)
        optimizer.abandon()
        assert all(p.grad is None for p in model.parameters())
        learn(model, optimizer, range(2))
        if "sharded" in options:
            optimizer.close()


def test_a_world_that_has_ended():
    model = Net()
    optimizer = hvd.DistributedOptimizer(adam(model), model.named_parameters())
    for give_up in (optimizer.abandon, lambda: optimizer.load_state_dict(optimizer.state_dict())):
        start_step(model, 0, True)
        hvd.barrier()
        hvd.shutdown()
        hvd.init()
        give_up()
        optimizer.zero_grad()
        learn(model, optimizer, range(2))


ranks.call_tests(globals())
