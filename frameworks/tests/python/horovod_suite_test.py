"""Horovod's own tests of its PyTorch module, test/parallel/test_torch.py: see horovod_suite.py."""

import horovod_suite


def prepare():
    """The suite tries every optimizer of torch.optim on a network with biases, which Muon, newer than the tests, refuses."""
    import torch

    for newer in {"Muon"} & vars(torch.optim).keys():
        getattr(torch.optim, newer).__module__ = "newer"  # the tests go by it


horovod_suite.main(
    __file__,
    ["test_torch.py"],
    at_least=100,  # of the 115 tests of 0.28.1; some need a GPU
    # docs/guide/from-horovod.md has the reasons.
    different=(
        "test_horovod_allgather_duplicate_name_error",
        "test_horovod_allreduce_duplicate_name_error",
        "test_horovod_broadcast_duplicate_name_error",
        "test_horovod_reducescatter_duplicate_name_error",
        "test_synchronize_step_warning",
    ),
    prepare=prepare,
)
