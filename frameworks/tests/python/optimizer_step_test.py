"""The fused steps of the core against torch.optim."""

import itertools

import ranks

ranks.start(__file__, sizes=(1,))

import torch

from xoe import _core

STEPS = 12
COUNT = 1003
FLOAT32 = _core.DTYPES["float32"]
# A step rounds about ten times, each by half of the last bit (2^-24) at most. PyTorch's kernels round at other places where they do
# without a fused multiply-add; the differences add up over the steps.
LAST_BITS = {"rtol": STEPS * 2.0**-23, "atol": STEPS * 2.0**-26}


def slices_of(p, gradient, states, dtype=FLOAT32, gradient_dtype=FLOAT32, master=0):
    addresses = [state.data_ptr() for state in states]
    return [
        _core.StepSlice(
            p.data_ptr(), master, [gradient.data_ptr()], p.numel(), dtype, gradient_dtype, _core.REDUCTIONS["sum"], addresses
        )
    ]


def gradient_at(step):
    return torch.randn(COUNT, generator=torch.Generator().manual_seed(step))


def sgd_step(slices, group, step):
    names = ("momentum", "dampening", "weight_decay", "nesterov", "maximize")
    _core.sgd_step(
        slices, _core.SgdOptions(learning_rate=group["lr"], first=step == 0, **{name: group[name] for name in names})
    )


def adam_step(slices, group, step, decoupled):
    beta1, beta2 = group["betas"]
    options = _core.AdamOptions(
        learning_rate=group["lr"],
        beta1=beta1,
        beta2=beta2,
        epsilon=group["eps"],
        weight_decay=group["weight_decay"],
        step=step + 1,
        decoupled=decoupled,
        maximize=group["maximize"],
    )
    _core.adam_step(slices, options, group["amsgrad"])


def follow(make, run, names):
    """Trains a parameter with PyTorch and with the fused step; compares the parameter and every state after each step."""
    wanted = torch.nn.Parameter(gradient_at(1000))
    optimizer = make([wanted])
    p = wanted.detach().clone()
    states = [torch.zeros(COUNT) for _ in range(3)]
    for step in range(STEPS):
        gradient = gradient_at(step)
        wanted.grad = gradient.clone()
        optimizer.step()
        run(slices_of(p, gradient, states), optimizer.param_groups[0], step)
        torch.testing.assert_close(p, wanted.detach(), **LAST_BITS)
        for state, name in zip(states, names, strict=False):
            if optimizer.state[wanted].get(name) is not None:
                torch.testing.assert_close(state, optimizer.state[wanted][name], **LAST_BITS)
    return torch.equal(p, wanted.detach())


def test_sgd():
    for decay, maximize in itertools.product((0, 0.1), (False, True)):
        for options in ({}, {"momentum": 0.9}, {"momentum": 0.9, "dampening": 0.5}, {"momentum": 0.8, "nesterov": True}):
            chosen = {"lr": 0.1, "weight_decay": decay, "maximize": maximize, **options}
            follow(lambda p, chosen=chosen: torch.optim.SGD(p, **chosen), sgd_step, ["momentum_buffer"])


def test_adam():
    names = ["exp_avg", "exp_avg_sq", "max_exp_avg_sq"]
    for kind, decoupled in ((torch.optim.Adam, False), (torch.optim.AdamW, True)):
        for decay, amsgrad, betas in itertools.product((0, 0.1), (False, True), ((0.9, 0.999), (0.3, 0.5), (0.0, 0.9))):
            chosen = {"lr": 0.01, "weight_decay": decay, "amsgrad": amsgrad, "betas": betas, "maximize": amsgrad}
            follow(
                lambda p, kind=kind, chosen=chosen: kind(p, **chosen),
                lambda slices, group, step, decoupled=decoupled: adam_step(slices, group, step, decoupled),
                names,
            )


def test_halves_follow_float32_copies():
    for dtype in (torch.bfloat16, torch.float16):
        wanted = torch.nn.Parameter(gradient_at(7).to(dtype).float())
        optimizer = torch.optim.AdamW([wanted], lr=0.01)
        p, master = wanted.detach().to(dtype), wanted.detach().clone()
        states = [torch.zeros(COUNT) for _ in range(3)]
        number = _core.DTYPES[str(dtype).removeprefix("torch.")]
        for step in range(STEPS):
            gradient = gradient_at(step).to(dtype)
            wanted.grad = gradient.float()
            optimizer.step()
            adam_step(
                slices_of(p, gradient, states, number, number, master.data_ptr()),
                optimizer.param_groups[0],
                step,
                decoupled=True,
            )
            torch.testing.assert_close(master, wanted.detach(), **LAST_BITS)
            assert torch.equal(p, master.to(dtype))


def test_gradients_of_several_ranks():
    gradients = [gradient_at(rank) for rank in range(3)]
    one, several = gradient_at(9), gradient_at(9)
    average = torch.stack(gradients).sum(0) / 3
    options = {"momentum": 0.0, "dampening": 0.0, "weight_decay": 0.0, "nesterov": False, "maximize": False, "first": False}
    addresses = [gradient.data_ptr() for gradient in gradients]
    slices = [_core.StepSlice(several.data_ptr(), 0, addresses, COUNT, FLOAT32, FLOAT32, _core.REDUCTIONS["average"], [])]
    _core.sgd_step(slices, _core.SgdOptions(learning_rate=0.5, **options))
    _core.sgd_step(slices_of(one, average, []), _core.SgdOptions(learning_rate=0.5, **options))
    torch.testing.assert_close(several, one, **LAST_BITS)


def test_wrong_arguments():
    p, gradient = gradient_at(0), gradient_at(1)
    options = {"learning_rate": 0.1, "momentum": 0.9, "dampening": 0.0, "weight_decay": 0.0}
    flags = {"nesterov": False, "maximize": False, "first": True}
    for slices, words in (
        (slices_of(p, gradient, []), "momentum is null"),
        (slices_of(p, gradient, [p], dtype=_core.DTYPES["float64"]), "must be float32, float16 or bfloat16"),
        (slices_of(p, gradient, [p], dtype=_core.DTYPES["float16"]), "master"),
    ):
        try:
            _core.sgd_step(slices, _core.SgdOptions(**options, **flags))
        except ValueError as error:
            assert words in str(error), error
        else:
            raise AssertionError(words)
    assert torch.equal(p, gradient_at(0))


ranks.call_tests(globals())
