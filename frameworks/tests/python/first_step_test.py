"""What an optimizer's first step says of ranks that forgot to broadcast parameters, or to share out the data."""

import os
import warnings

import ranks

ranks.start(__file__, sizes=(1, 2, 3))

import torch

import xoe.torch as hvd
from xoe.torch.first_step import FirstStepWarning

hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()


def warned(same_start=True, same_batches=False, dtype=torch.float32, steps=3, memory_format=torch.contiguous_format, **options):
    """The warnings of a small training. Without options ranks have the same parameters and batches of their own."""
    torch.manual_seed(0 if same_start else 1 + RANK)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Flatten(), torch.nn.Linear(4 * 36, 5))
    model = model.to(dtype).to(memory_format=memory_format)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.01), named_parameters=model.named_parameters(), **options
    )
    torch.optim.lr_scheduler.StepLR(optimizer, 1)  # calls step() in a frame of its own
    torch.manual_seed(0 if same_batches else 1 + RANK)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(steps):
            model(torch.randn(2, 3, 8, 8, dtype=dtype)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    said = [one for one in caught if one.category is FirstStepWarning]
    assert all(one.filename == __file__ for one in said), said
    return [str(one.message) for one in said]


def expect_on_first(said, *words):
    if RANK != 0 or SIZE == 1:
        assert said == [], said
        return
    (one,) = said
    for word in words:
        assert word in one, one


def test_a_forgotten_broadcast_is_named_once():
    expect_on_first(
        warned(same_start=False), "different parameters: 0.bias, 0.weight, 2.bias and 1 more", "broadcast_parameters"
    )
    expect_on_first(warned(same_start=False, groups=2), "0.bias")
    expect_on_first(warned(same_start=False, dtype=torch.bfloat16, memory_format=torch.channels_last), "0.weight")


def test_batches_that_all_ranks_share_are_named_once():
    expect_on_first(warned(same_batches=True), "the same gradients", "DistributedSampler")
    expect_on_first(warned(same_batches=True, compression=hvd.Compression.fp16), "the same gradients")


def test_a_good_start_is_silent():
    for options in ({}, {"groups": 2}, {"dtype": torch.float64}, {"memory_format": torch.channels_last}):
        assert warned(**options) == []


def test_a_rank_without_data_is_no_copy_of_the_others():
    if RANK < SIZE - 1 or SIZE == 1:
        said = warned(same_batches=SIZE == 2)
        assert said == [], said
    hvd.join()


def test_one_rank_in_a_process_set_is_alone():
    with_first = hvd.add_process_set([0])
    said = warned(same_start=False, process_set=with_first)
    assert said == []
    hvd.remove_process_set(with_first)


def test_a_parameter_without_a_gradient():
    frozen = torch.nn.Parameter(torch.full((3,), float(RANK)), requires_grad=False)
    weight = torch.nn.Parameter(torch.ones(3))
    unused = torch.nn.Parameter(torch.ones(3))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight, unused, frozen], lr=0.1))
    with warnings.catch_warnings():
        warnings.simplefilter("error", FirstStepWarning)
        (weight * (RANK + 1)).sum().backward()
        optimizer.step()


def test_parameters_that_are_all_frozen():
    frozen = torch.nn.Parameter(torch.ones(3), requires_grad=False)
    hvd.DistributedOptimizer(torch.optim.SGD([frozen], lr=0.1)).step()


def test_gradients_that_are_conjugated_lazily():
    weight = torch.nn.Parameter(torch.ones(3, dtype=torch.complex64))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=0.1))
    weight.grad = torch.full((3,), complex(1, RANK)).conj()
    optimizer.step()


def test_it_can_be_left_out():
    os.environ["XOE_CHECK_FIRST_STEP"] = "0"
    try:
        assert warned(same_start=False) == []
    finally:
        del os.environ["XOE_CHECK_FIRST_STEP"]


def test_one_rank_may_leave_it_out():
    if RANK == SIZE - 1:
        os.environ["XOE_CHECK_FIRST_STEP"] = "0"
    try:
        assert warned(same_start=False) == [] or SIZE == 1
    finally:
        os.environ.pop("XOE_CHECK_FIRST_STEP", None)


ranks.call_tests(globals())
