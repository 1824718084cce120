"""Groups of the backend "xoe": their timeouts, groups that only their members make, and monitored_barrier."""

import gc
import inspect
import threading
import time
import warnings
from datetime import timedelta
from functools import partial
from unittest import mock

import ranks
from checks import raises

ranks.start(__file__, sizes=(2, 3, 4))

import torch
import torch.distributed as dist
import torch.distributed.distributed_c10d as c10d

import xoe.torch.distributed
from xoe import process_sets
from xoe.errors import OperationTimeoutError
from xoe.torch.distributed import subgroups

assert xoe.torch.distributed.Group
warnings.filterwarnings("ignore")
dist.init_process_group("xoe")
RANK, SIZE = dist.get_rank(), dist.get_world_size()
OTHERS = [rank for rank in range(SIZE) if rank != 0]
SECOND = timedelta(seconds=1)
times_out = partial(raises, OperationTimeoutError)


def summed(group=None):
    """The sum of the ranks of the job in a group, by the group."""
    tensor = torch.tensor([float(RANK)])
    dist.all_reduce(tensor, group=group)
    return int(tensor.item())


def times_out_alone(call):
    """Rank 0 calls, and the others do not: the group fails after a second, and no other."""
    started = time.monotonic()
    if RANK == 0:
        times_out(call, " Timed out after 1 s", "missing on rank", *map(str, OTHERS))
        assert time.monotonic() - started >= 1
    dist.barrier()
    times_out(call, "Timed out")
    assert summed() == sum(range(SIZE))


def test_a_groups_timeout():
    group = dist.new_group(timeout=SECOND)
    times_out_alone(lambda: dist.barrier(group))


def test_a_groups_timeout_through_a_future():
    group = dist.new_group(timeout=SECOND)

    def wait():
        try:
            dist.all_reduce(torch.ones(2), group=group, async_op=True).get_future().wait()
        except RuntimeError as error:
            raise OperationTimeoutError(str(error)) from None

    times_out_alone(wait)


def test_a_timeout_that_is_set_later():
    group = dist.new_group()
    if "set_timeout" in dir(dist):
        dist.set_timeout(SECOND, group)
    else:
        group.set_timeout(SECOND)
    times_out_alone(lambda: summed(group))


def test_the_timeout_of_one_barrier():
    if "timeout" not in inspect.signature(dist.barrier).parameters:
        return  # an older PyTorch
    group = dist.new_group()
    times_out_alone(lambda: dist.barrier(group, timeout=SECOND))


def test_a_sparse_operation_has_the_groups_timeout():
    group = dist.new_group(timeout=SECOND)
    times_out_alone(lambda: dist.all_reduce(torch.eye(2).to_sparse(), group=group))


def test_waiting_shorter_than_the_timeout():
    work = None
    if RANK == 0:
        work = dist.barrier(async_op=True)
        times_out(lambda: work.wait(timedelta(seconds=0.1)), "Timed out after 0.1 s", "continues")
    dist.new_group([0])  # all ranks are here
    if RANK != 0:
        work = dist.barrier(async_op=True)
    assert work.wait() is True


def test_a_message_has_the_groups_timeout():
    group = dist.new_group(timeout=SECOND)
    if RANK < 2:
        dist.send(torch.ones(1), 1, group=group) if RANK == 0 else dist.recv(torch.ones(1), 0, group=group)
    if RANK == 0:
        times_out(lambda: dist.recv(torch.ones(1), 1, group=group), "receive from rank 1", "Timed out")
    dist.barrier()


def test_groups_that_their_members_make():
    alike = [rank for rank in range(SIZE) if rank % 2 == RANK % 2]
    group = dist.new_group(alike, use_local_synchronization=True)
    assert summed(group) == sum(alike)
    again = dist.new_group(alike, use_local_synchronization=True)
    assert summed(again) == sum(alike) and summed(group) == sum(alike)
    received = torch.full((1,), float(RANK))
    if len(alike) > 1:
        other = alike[(alike.index(RANK) + 1) % len(alike)]
        before = alike[alike.index(RANK) - 1]
        work = dist.isend(torch.full((1,), float(RANK)), other, group=again)
        dist.recv(received, before, group=again)
        work.wait()
        assert received.item() == before
    assert not c10d._get_default_store().check([f"xoe/{again._members.name}/0"]), "the store keeps where its members met"
    dist.destroy_process_group(again)
    assert summed(group) == sum(alike) and summed() == sum(range(SIZE))


def test_a_lone_member():
    if RANK == SIZE - 1:
        group = dist.new_group([RANK], use_local_synchronization=True)
        assert summed(group) == RANK
    everyone = dist.new_group()  # its number is now another one there
    assert summed(everyone) == sum(range(SIZE))
    received = torch.zeros(1)
    if RANK == 0:
        dist.send(torch.ones(1), SIZE - 1, group=everyone)
    elif RANK == SIZE - 1:
        dist.recv(received, 0, group=everyone)
        assert received.item() == 1


def test_the_timeout_of_a_group_that_its_members_make():
    group = dist.new_group(list(range(SIZE)), timeout=SECOND, use_local_synchronization=True)
    times_out_alone(lambda: dist.barrier(group))


def test_subgroups_of_a_group():
    sub = dist.new_group(OTHERS)
    if RANK == 0:
        mine, groups = None, []
    else:
        mine, groups = dist.new_subgroups(1, group=sub)
        assert summed(mine) == RANK and len(groups) == SIZE - 1
        mine, groups = dist.new_subgroups(SIZE - 1, group=sub)
        assert summed(mine) == sum(OTHERS) and len(groups) == 1
    assert summed(dist.new_group()) == sum(range(SIZE))
    mine, groups = dist.new_subgroups(1)
    assert summed(mine) == RANK and len(groups) == SIZE


def test_groups_by_ranks_and_tag():
    if SIZE % 2 == 0:
        group = c10d._find_or_create_pg_by_ranks_and_tag("halves", list(range(SIZE)), SIZE // 2)
        half = RANK // (SIZE // 2)
        assert summed(group) == sum(range(half * (SIZE // 2), (half + 1) * (SIZE // 2)))


def known_sets():
    return len(process_sets._added)


def test_groups_that_are_destroyed_leave_nothing():
    before = known_sets()
    for _ in range(20):
        group = dist.new_group(OTHERS)
        if RANK != 0:
            assert summed(group) == sum(OTHERS)
            dist.destroy_process_group(group)
        assert known_sets() <= before + 1, known_sets()
    assert not subgroups._added


def test_groups_that_pytorch_does_not_shut_down_leave_no_thread():
    """As before PyTorch 2.6, where a program destroys them."""

    def threads():
        return sum(thread.name.startswith("xoe group") for thread in threading.enumerate())

    before = threads()
    for _ in range(4):
        group = dist.new_group()
        tensor = torch.ones(3)
        dist.all_reduce(tensor, group=group, async_op=True).get_future().wait()
        assert threads() > before
        with mock.patch.object(xoe.torch.distributed.Group, "shutdown"):
            dist.destroy_process_group(group)
        del group
    end = time.monotonic() + 60
    while threads() > before and time.monotonic() < end:
        gc.collect()
        time.sleep(0.01)
    assert threads() == before, [thread.name for thread in threading.enumerate()]


def test_a_group_stays_until_all_members_have_destroyed_it():
    group = dist.new_group()
    number = group._members.process_set
    if RANK != 0:
        dist.destroy_process_group(group)
    dist.new_group()
    assert number in [one.process_set_id for one in process_sets._added]
    if RANK == 0:
        dist.destroy_process_group(group)
    dist.new_group()
    assert number not in [one.process_set_id for one in process_sets._added]


def test_splitting_a_group():
    if not hasattr(dist.ProcessGroup, "split_group"):
        return  # an older PyTorch, which splits its own groups only
    parts = [[1, 0], list(range(2, SIZE))] if SIZE > 2 else [[1, 0]]
    own = parts[0] if RANK < 2 else parts[1]
    group = dist.split_group(split_ranks=parts, group_desc="a part")
    assert summed(group) == sum(own) and dist.get_rank(group) == own.index(RANK) and group.group_desc == "a part"
    part = dist.split_group(split_ranks=[[0]])
    assert (part is dist.GroupMember.NON_GROUP_MEMBER) == (RANK != 0)
    again = dist.split_group(group, split_ranks=[[index] for index in range(len(own))])
    assert summed(again) == RANK


def test_monitored_barrier():
    for all_ranks in (False, True, False):
        dist.monitored_barrier(wait_all_ranks=all_ranks)


def test_monitored_barrier_names_who_is_missing():
    short = timedelta(seconds=0.2)
    if RANK == SIZE - 1:
        pass
    elif RANK == 0:
        times_out(lambda: dist.monitored_barrier(timeout=short), f"Rank {SIZE - 1} failed to pass monitoredBarrier in 200 ms")
    else:
        times_out(
            lambda: dist.monitored_barrier(timeout=short),
            f"Rank {RANK} successfully reached",
            "waiting for send/recv from rank 0",
        )
    dist.barrier()
    if RANK == 0:
        missing = "Ranks " + ", ".join(map(str, OTHERS)) if SIZE > 2 else "Rank 1"
        times_out(
            lambda: dist.monitored_barrier(timeout=short, wait_all_ranks=True), f"{missing} failed to pass monitoredBarrier"
        )
    dist.barrier()


def test_monitored_barrier_after_a_failed_one():
    group = dist.new_group()
    if RANK == 0:
        times_out(lambda: dist.monitored_barrier(group, timedelta(seconds=0)), "Rank 0 timed out in monitoredBarrier")
    dist.barrier()
    if RANK != 0:
        times_out(lambda: dist.monitored_barrier(group, timedelta(seconds=5)), "Rank 0 timed out")
    dist.monitored_barrier(group)


def test_monitored_barrier_of_a_subgroup():
    group = dist.new_group(OTHERS)
    dist.monitored_barrier(group)


ranks.call_tests(globals())
dist.barrier()
dist.destroy_process_group()
