"""hvd.init() with groups of ranks in place of the job."""

import os

import ranks

ranks.start(__file__, sizes=(4,))

import torch

import xoe
import xoe.torch as hvd

RANK = int(os.environ["XOE_RANK"])


def test_groups():
    """Two groups at once, one of them in another order; then all ranks again."""
    mine = [0, 2] if RANK % 2 == 0 else [3, 1]
    hvd.init(comm=mine)
    assert (hvd.rank(), hvd.size()) == (mine.index(RANK), 2)
    assert (hvd.local_rank(), hvd.local_size()) == (mine.index(RANK), 2)
    assert hvd.allreduce(torch.tensor([float(RANK)]), op=hvd.Sum).item() == sum(mine)
    assert torch.equal(hvd.allgather(torch.tensor([RANK])), torch.tensor(mine))
    assert hvd.broadcast_object(RANK, 0) == mine[0]
    both = hvd.add_process_set([1])
    assert both.included() == (mine.index(RANK) == 1)
    hvd.shutdown()
    hvd.init()
    assert (hvd.rank(), hvd.size()) == (RANK, 4)
    assert hvd.allreduce(torch.tensor([1.0]), op=hvd.Sum).item() == 4
    hvd.shutdown()


def test_one_alone():
    hvd.init(comm=[RANK])
    assert (hvd.rank(), hvd.size()) == (0, 1)
    assert hvd.allreduce(torch.tensor([2.0])).item() == 2
    hvd.shutdown()


def refused(comm, *words):
    try:
        hvd.init(comm=comm)
    except xoe.InvalidArgumentError as error:
        assert all(word in str(error) for word in words), error
    else:
        raise AssertionError(f"{comm} was taken")


def test_what_does_not_fit():
    refused([0, 1], "rank 2 wants a group of ranks [0, 1], and is not one of them")
    refused([0, 1] if RANK == 0 else [0, 1, 2, 3], "rank 0 wants a group of ranks [0, 1], rank 1 one of [0, 1, 2, 3]")
    refused([0, 0, 1, 2, 3], "each must be one of the 4, once")
    refused([RANK, 7], "rank 0 wants a group of ranks [0, 7]")
    hvd.init(comm=range(4))
    assert hvd.size() == 4
    hvd.shutdown()


ranks.call_tests(globals())
