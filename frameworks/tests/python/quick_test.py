"""Promises of the PyTorch bindings that are quick to check, beside the long tests of the same modules."""

import ranks

ranks.start(__file__, sizes=(2,))

import torch
import torch.distributed as dist

import xoe.torch as hvd
import xoe.torch.distributed  # noqa: F401
from xoe.errors import InvalidArgumentError

hvd.init()
torch.set_num_threads(1)
RANK, SIZE = hvd.rank(), hvd.size()
dist.init_process_group("xoe")


def test_results_that_overlap_their_sources():
    """FSDP gathers from this rank's part of the result."""
    whole = torch.zeros(2 * SIZE)
    part = whole[2 * RANK : 2 * RANK + 2]
    part.fill_(RANK + 1.0)
    dist.all_gather_into_tensor(whole, part)
    assert whole.tolist() == [rank + 1.0 for rank in range(SIZE) for _ in range(2)]
    whole = torch.arange(4.0 * SIZE) + RANK
    kept = whole.clone()
    for begin in (0, 1, 4 * RANK):
        whole.copy_(kept)
        dist.reduce_scatter_tensor(whole[begin : begin + 4], whole)
        wanted = sum(torch.arange(4.0 * RANK, 4.0 * RANK + 4) + rank for rank in range(SIZE))
        assert torch.equal(whole[begin : begin + 4], wanted), (begin, whole, wanted)


def test_sources_keep_their_values():
    source = torch.arange(4.0 * SIZE) + RANK
    kept = source.clone()
    dist.reduce_scatter_tensor(torch.empty(4), source)
    dist.all_gather_into_tensor(torch.empty(4 * SIZE * SIZE), source)
    dist.all_to_all_single(torch.empty(4 * SIZE), source)
    dist.reduce_scatter(torch.empty(4), list(source.chunk(SIZE)))
    dist.all_gather([torch.empty(4 * SIZE) for _ in range(SIZE)], source)
    for call in (
        lambda: hvd.allreduce(source),
        lambda: hvd.synchronize(hvd.allreduce_async(source)),
        lambda: hvd.grouped_allreduce([source, source]),
        lambda: hvd.broadcast(source, 0),
        lambda: hvd.synchronize(hvd.broadcast_async(source, 0)),
        lambda: hvd.allgather(source),
        lambda: hvd.alltoall(source),
        lambda: hvd.reducescatter(source),
        lambda: hvd.synchronize(hvd.sparse_allreduce_async(source.to_sparse())),
    ):
        call()
    if RANK != 0:  # only the root's tensor is a result, too
        dist.reduce(source, 0)
    else:
        dist.reduce(source.clone(), 0)
    assert torch.equal(source, kept)


def test_a_refusal_does_not_shift_what_follows():
    options = dist.BroadcastOptions()
    options.rootRank = SIZE
    for refuses in range(SIZE):
        if refuses == RANK:
            try:
                dist.group.WORLD.broadcast([torch.ones(3)], options)
            except InvalidArgumentError:
                pass
            else:
                raise AssertionError("a root that there is not")
        mine = torch.full((3,), float(RANK))
        dist.all_reduce(mine)
        assert mine.tolist() == [sum(range(SIZE))] * 3


def test_elastic_state_is_that_of_the_first_rank_that_kept_it():
    """After a restart of rank 0, whose state is new: the others' counts."""
    state = hvd.elastic.TorchState(model=torch.nn.Linear(2, 2), step=RANK)
    state.sync()
    assert state.step == 0
    state.step = 7 + RANK
    if RANK == 0:
        state = hvd.elastic.TorchState(model=torch.nn.Linear(2, 2), step=0)
    weight = hvd.broadcast(state.model.weight.detach(), 1)
    state.sync()
    assert state.step == 8
    assert torch.equal(state.model.weight, weight)


ranks.call_tests(globals())
dist.destroy_process_group()
