"""The backend "xoe" of torch.distributed: every collective in the ways PyTorch calls them, against its own backend gloo."""

import warnings

import ranks
from checks import raises

ranks.start(__file__)

import torch
import torch.distributed as dist
from torch.distributed import _functional_collectives as functional

import xoe.torch.distributed
from xoe.errors import InvalidArgumentError, UnsupportedError
from xoe.torch.distributed import work as kept_works

warnings.filterwarnings("ignore")
dist.init_process_group("xoe")
RANK, SIZE = dist.get_rank(), dist.get_world_size()
GLOO = dist.new_group(backend="gloo")
MIRROR = dist.new_group()  # all ranks once more
TYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.uint8, torch.int8, torch.int32, torch.int64)
MOVED = (*TYPES, torch.int16, torch.bool, torch.complex64, torch.float8_e4m3fn)


def values(rank=RANK, dtype=torch.float32, shape=(2, 3), seed=0):
    """What a rank gives: small numbers, exact in every type."""
    generator = torch.Generator().manual_seed(1000 * seed + rank)
    return torch.randint(0, 4, shape, generator=generator).to(dtype)


def everyone(**options):
    return [values(rank, **options) for rank in range(SIZE)]


def same(one, other):
    assert one.dtype == other.dtype and one.shape == other.shape, (one, other)
    as_they_are = one.dtype not in (torch.float8_e4m3fn,)
    equal = torch.equal(one, other) if as_they_are else torch.equal(one.view(torch.uint8), other.view(torch.uint8))
    assert equal, f"rank {RANK}: {one} is not {other}"


def test_what_it_is():
    assert dist.get_backend() == "xoe" and dist.get_backend(GLOO) == "gloo"
    assert isinstance(dist.group.WORLD, xoe.torch.distributed.Group)
    assert dist.group.WORLD.name() == "xoe"
    assert dist.get_process_group_ranks(MIRROR) == list(range(SIZE))


def test_allreduce():
    operations = [dist.ReduceOp.SUM, dist.ReduceOp.MIN, dist.ReduceOp.MAX, dist.ReduceOp.PRODUCT]
    for dtype in TYPES:
        for op in operations:
            mine, reference = values(dtype=dtype), values(dtype=dtype)
            dist.all_reduce(mine, op)
            dist.all_reduce(reference, op, group=GLOO)
            same(mine, reference)
    average = values()
    dist.all_reduce(average, dist.ReduceOp.AVG)
    assert torch.allclose(average, torch.stack(everyone()).mean(0))


def test_allreduce_of_other_layouts():
    for make in (
        lambda tensor: tensor.t(),
        lambda tensor: tensor[:, ::2],
        lambda tensor: tensor[0, 0],
        lambda tensor: tensor[:0],
        lambda tensor: tensor.to(torch.complex64),
    ):
        mine = make(values())
        dist.all_reduce(mine)
        same(mine, sum(make(tensor) for tensor in everyone()))


def test_premultiplied_sum():
    if "factor" not in dir(dist.ReduceOp):
        return  # an older PyTorch keeps it to itself
    from torch._C._distributed_c10d import _make_nccl_premul_sum

    mine = values()
    dist.all_reduce(mine, _make_nccl_premul_sum(0.5))
    assert torch.allclose(mine, sum(everyone()) * 0.5)


def test_bits_have_no_reduction():
    tensor = values(dtype=torch.int32)
    for op in (dist.ReduceOp.BAND, dist.ReduceOp.BOR, dist.ReduceOp.BXOR):
        raises(UnsupportedError, lambda op=op: dist.all_reduce(tensor, op), "gloo", "SUM")


def test_works():
    mine = values()
    work = dist.all_reduce(mine, async_op=True)
    assert work.wait() is True and work.is_completed() and work.is_success() and work.exception() is None
    same(mine, sum(everyone()))
    work = dist.all_reduce(mine, async_op=True)
    (result,) = work.get_future().wait()
    assert result is mine or result.data_ptr() == mine.data_ptr()
    assert work.wait(dist.default_pg_timeout)
    doubled = dist.all_reduce(mine, async_op=True).get_future().then(lambda future: future.value()[0] * 2).wait()
    same(doubled, mine * 2)


def test_kept_works_go_when_they_have_ended():
    """A PyTorch before 2.7 needs Xoe to keep works. One that the program drops, and one under way, do not hold the others."""
    constants = {"_CPP_KEEPS_WORKS": False, "_MOST_KEPT": 100}
    before = {name: getattr(kept_works, name) for name in constants}
    vars(kept_works).update(constants)
    try:
        dist.all_reduce(values(), async_op=True)
        received = torch.zeros(2, 3)
        receive = dist.irecv(received, (RANK + 1) % SIZE, tag=7) if SIZE > 1 else None
        for _ in range(300):
            dist.all_reduce(values())
        assert len(kept_works._kept) <= 102 and len(kept_works._with_tensors) <= kept_works._LAST_FEW + 2, len(kept_works._kept)
        assert sum(bool(one._result) for one in kept_works._kept) <= kept_works._LAST_FEW + 2
        if receive is not None:
            assert receive in kept_works._kept and not receive.is_completed()
            dist.barrier(group=GLOO)  # nothing is sent before that
            sent = dist.isend(values(), (RANK - 1) % SIZE, tag=7)
            receive.wait()
            sent.wait()
            same(received, values((RANK + 1) % SIZE))
    finally:
        vars(kept_works).update(before)
        kept_works.forget()


def test_many_under_way():
    tensors = [values(seed=seed) for seed in range(300)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    for work in reversed(works):
        work.wait()
    for seed, tensor in enumerate(tensors):
        same(tensor, sum(everyone(seed=seed)))


def test_more_under_way_than_there_are_names():
    tensors = [torch.full((2,), float(i)) for i in range(1500)]
    if RANK == 0:
        works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    dist.barrier(group=GLOO)  # the others begin when the first rank has submitted all
    if RANK != 0:
        works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    for work in works:
        work.wait()
    for i, tensor in enumerate(tensors):
        same(tensor, torch.full((2,), float(SIZE * i)))
    dist.barrier()


def test_sparse_allreduce():
    indices = torch.tensor([[RANK, SIZE]])
    tensor = torch.sparse_coo_tensor(indices, torch.ones(2, 3), (SIZE + 1, 3))
    dist.all_reduce(tensor)
    expected = torch.ones(SIZE + 1, 3)
    expected[SIZE] = SIZE
    same(tensor.to_dense(), expected)


def test_broadcast():
    for dtype in MOVED:
        for root in range(SIZE):
            mine = values(dtype=dtype)
            dist.broadcast(mine, root)
            same(mine, values(root, dtype))


def test_reduce():
    for root in range(SIZE):
        mine = values()
        dist.reduce(mine, root)
        same(mine, sum(everyone()) if root == RANK else values())


def test_allgather():
    for dtype in MOVED:
        outputs = [torch.zeros(2, 3).to(dtype) for _ in range(SIZE)]
        dist.all_gather(outputs, values(dtype=dtype))
        for output, expected in zip(outputs, everyone(dtype=dtype), strict=True):
            same(output, expected)
        whole = torch.zeros(2 * SIZE, 3).to(dtype)
        dist.all_gather_into_tensor(whole, values(dtype=dtype))
        assert torch.equal(
            whole.float() if dtype is torch.float8_e4m3fn else whole,
            torch.cat([t.float() if dtype is torch.float8_e4m3fn else t for t in everyone(dtype=dtype)]),
        )


def test_allgather_of_different_sizes():
    outputs = [torch.zeros(rank + 1) for rank in range(SIZE)]
    dist.all_gather(outputs, torch.full((RANK + 1,), float(RANK)))
    for rank, output in enumerate(outputs):
        same(output, torch.full((rank + 1,), float(rank)))


def test_allgather_from_its_own_place():
    whole = torch.zeros(2 * SIZE, 3)
    own = whole[2 * RANK : 2 * RANK + 2]
    own.copy_(values())
    dist.all_gather_into_tensor(whole, own)
    same(whole, torch.cat(everyone()))


def test_reduce_scatter():
    for dtype in (torch.float32, torch.bfloat16, torch.int64):
        inputs = [values(dtype=dtype, seed=part) for part in range(SIZE)]
        expected = sum(everyone(dtype=dtype, seed=RANK))
        output = torch.zeros(2, 3, dtype=dtype)
        dist.reduce_scatter(output, inputs)
        same(output, expected)
        output.zero_()
        dist.reduce_scatter_tensor(output, torch.cat(inputs))
        same(output, expected)
    dist.reduce_scatter_tensor(
        average := torch.zeros(2, 3), torch.cat([values(seed=part) for part in range(SIZE)]), dist.ReduceOp.AVG
    )
    assert torch.allclose(average, torch.stack(everyone(seed=RANK)).mean(0))
    output = torch.zeros(RANK + 1)
    dist.reduce_scatter(output, [torch.full((part + 1,), float(RANK)) for part in range(SIZE)])
    same(output, torch.full((RANK + 1,), float(sum(range(SIZE)))))


def test_reduce_scatter_of_neighbours_in_memory():
    memory = torch.zeros(2 * SIZE + 2)
    output, whole = memory[:2], memory[2:]
    whole.copy_(torch.arange(2.0 * SIZE))
    dist.reduce_scatter_tensor(output, whole)
    same(output, SIZE * torch.arange(2.0 * RANK, 2 * RANK + 2))


def test_gather_and_scatter():
    for dtype in MOVED:
        root = SIZE - 1
        outputs = [torch.zeros(2, 3).to(dtype) for _ in range(SIZE)] if root == RANK else None
        dist.gather(values(dtype=dtype), outputs, dst=root)
        for output, expected in zip(outputs or [], everyone(dtype=dtype), strict=False):
            same(output, expected)
        output = torch.zeros(2, 3).to(dtype)
        dist.scatter(output, everyone(dtype=dtype) if root == RANK else None, src=root)
        same(output, values(dtype=dtype))


def test_alltoall():
    outputs = [torch.zeros(rank + 1) for rank in range(SIZE)]
    dist.all_to_all(outputs, [torch.full((RANK + 1,), 10.0 * RANK + rank) for rank in range(SIZE)])
    for rank, output in enumerate(outputs):
        same(output, torch.full((rank + 1,), 10.0 * rank + RANK))


def test_alltoall_single():
    output = torch.zeros(2 * SIZE, 3)
    dist.all_to_all_single(output, torch.cat([values(seed=rank) for rank in range(SIZE)]))
    same(output, torch.cat([values(rank, seed=RANK) for rank in range(SIZE)]))
    to_send, to_receive = [rank + RANK for rank in range(SIZE)], [rank + RANK for rank in range(SIZE)]
    for dtype in (torch.float32, torch.int64, torch.complex64):
        output = torch.zeros(sum(to_receive), 2, dtype=dtype)
        dist.all_to_all_single(output, torch.full((sum(to_send), 2), RANK, dtype=dtype), to_receive, to_send)
        same(output, torch.cat([torch.full((rows, 2), rank, dtype=dtype) for rank, rows in enumerate(to_receive)]))


def test_objects():
    objects = [None] * SIZE
    dist.all_gather_object(objects, {"rank": RANK, "text": "x" * RANK})
    assert [entry["rank"] for entry in objects] == list(range(SIZE))
    told = [("from", 0) if RANK == 0 else None]
    dist.broadcast_object_list(told, src=0)
    assert told == [("from", 0)]
    dist.gather_object(RANK, gathered := [None] * SIZE if RANK == 0 else None, dst=0)
    assert gathered in (None, list(range(SIZE)))
    dist.scatter_object_list(mine := [None], [f"for {rank}" for rank in range(SIZE)] if RANK == 0 else None, src=0)
    assert mine == [f"for {RANK}"]


def test_barrier():
    dist.barrier()
    assert dist.barrier(async_op=True).wait()


def test_coalescing():
    manager = dist.distributed_c10d._coalescing_manager
    tensors = [values(seed=seed) for seed in range(3)]
    with manager(async_ops=True) as batch:
        for tensor in tensors:
            dist.all_reduce(tensor)
    batch.wait()
    for seed, tensor in enumerate(tensors):
        same(tensor, sum(everyone(seed=seed)))
    outputs = [torch.zeros(2 * SIZE, 3) for _ in range(2)]
    with manager():
        for seed, output in enumerate(outputs):
            dist.all_gather_into_tensor(output, values(seed=seed))
    for seed, output in enumerate(outputs):
        same(output, torch.cat(everyone(seed=seed)))
    tensor = values()
    with manager(device=torch.device("cpu"), async_ops=True) as batch:
        dist.broadcast(tensor, 0, async_op=True)
    batch.wait()
    same(tensor, values(0))


def test_functional_collectives():
    group = dist.group.WORLD
    same(functional.all_reduce(values(), "sum", group) + 0, sum(everyone()))
    same(functional.all_gather_tensor(values(), 0, group) + 0, torch.cat(everyone()))
    whole = torch.cat([values(seed=part) for part in range(SIZE)])
    same(functional.reduce_scatter_tensor(whole, "sum", 0, group) + 0, sum(everyone(seed=RANK)))
    same(
        functional.all_to_all_single(whole, None, None, group) + 0, torch.cat([values(rank, seed=RANK) for rank in range(SIZE)])
    )
    same(functional.broadcast(values(), SIZE - 1, group) + 0, values(SIZE - 1))
    for reduced, seed in zip(
        functional.all_reduce_coalesced([values(seed=1), values(seed=2)], "sum", group), (1, 2), strict=True
    ):
        same(reduced + 0, sum(everyone(seed=seed)))


def test_point_to_point():
    if SIZE == 1:
        return
    # A ring of sends before the receives.
    received = torch.zeros(2, 3)
    sent = dist.isend(values(), (RANK + 1) % SIZE)
    dist.recv(received, (RANK - 1) % SIZE)
    sent.wait()
    same(received, values((RANK - 1) % SIZE))
    operations = [
        dist.P2POp(dist.isend, values(seed=1), (RANK + 1) % SIZE),
        dist.P2POp(dist.irecv, received, (RANK - 1) % SIZE),
    ]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    same(received, values((RANK - 1) % SIZE, seed=1))
    # Tags keep messages apart, and each sender's come in order.
    following, leading = (RANK + 1) % SIZE, (RANK - 1) % SIZE
    works = [dist.isend(torch.full((3,), float(tag)), following, tag=tag) for tag in (7, 8, 8)]
    for tag in (8, 7, 8):
        dist.recv(one := torch.zeros(3), leading, tag=tag)
        same(one, torch.full((3,), float(tag)))
    for work in works:
        work.wait()


def test_point_to_point_from_any_rank():
    if RANK != 0:
        dist.send(torch.full((100,), float(RANK)), 0)
        return
    for _ in range(SIZE - 1):
        received = torch.zeros(100)
        source = dist.recv(received)
        same(received, torch.full((100,), float(source)))
    raises(InvalidArgumentError, lambda: dist.group.WORLD.send([torch.zeros(1)], SIZE, 0), f"no rank {SIZE}")


def test_point_to_point_of_large_and_empty_tensors():
    """More than sockets and rings hold, both ways at once; the collective in between needs the messages to move by themselves."""
    other = RANK ^ 1
    if other >= SIZE:
        dist.barrier()
        return
    large = torch.arange(3_000_000, dtype=torch.float64) + RANK
    received = torch.zeros_like(large)
    works = [dist.isend(large, other), dist.irecv(received, other)]
    dist.barrier()
    for work in works:
        work.wait()
    same(received, large - RANK + other)
    work = dist.isend(torch.zeros(0), other)
    dist.recv(torch.zeros(0), other)
    work.wait()
    # Another size is an error of that message only.
    work = dist.isend(torch.zeros(4), other)
    raises(InvalidArgumentError, lambda: dist.recv(torch.zeros(5), other), "16 bytes where 20 were expected")
    work.wait()
    strided, bits = torch.zeros(4, 2)[:, 0], torch.zeros(4, dtype=torch.complex64)
    works = [dist.isend(torch.arange(8.0)[::2], other), dist.isend(torch.ones(4) * 1j, other)]
    dist.recv(strided, other)
    dist.recv(bits, other)
    for work in works:
        work.wait()
    same(strided, torch.arange(8.0)[::2])
    same(bits, torch.ones(4) * 1j)


def test_subgroups():
    for members in ([0], list(range(SIZE)), [SIZE - 1], list(range(0, SIZE, 2))):
        group = dist.new_group(members)
        if RANK not in members:
            assert group == dist.GroupMember.NON_GROUP_MEMBER
            continue
        mine = values()
        dist.all_reduce(mine, group=group)
        same(mine, sum(values(rank) for rank in members))
        dist.broadcast(mine, members[-1], group=group)
        assert dist.get_rank(group) == members.index(RANK) and dist.get_backend(group) == "xoe"
    # Groups at once, one after the other on some ranks only.
    even = dist.new_group(list(range(0, SIZE, 2)))
    mine = values()
    works = [dist.all_reduce(values(), group=even, async_op=True)] if RANK % 2 == 0 else []
    dist.all_reduce(mine)
    [work.wait() for work in works]
    same(mine, sum(everyone()))


def test_device_mesh():
    from torch.distributed.device_mesh import init_device_mesh

    shape = (SIZE // 2, 2) if SIZE % 2 == 0 else (SIZE, 1)
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=("rows", "columns"))
    mine = values()
    dist.all_reduce(mine, group=mesh["columns"].get_group())
    first = RANK - RANK % shape[1]
    same(mine, sum(values(rank) for rank in range(first, first + shape[1])))


def test_wrong_calls():
    raises(InvalidArgumentError, lambda: dist.all_to_all_single(torch.zeros(SIZE), torch.zeros(SIZE), [1] * SIZE, [2] * SIZE))
    options = dist.BroadcastOptions()
    options.rootRank = SIZE
    if RANK == 0:  # what the engine refuses on one rank does not shift its operations against the others'
        raises(InvalidArgumentError, lambda: dist.group.WORLD.broadcast([values()], options))
    dist.all_reduce(mine := values())
    same(mine, sum(everyone()))


def test_ranks_disagree():
    if SIZE == 1:
        return
    tensor = torch.zeros(3 if RANK == 0 else 4)
    raises(InvalidArgumentError, lambda: dist.all_reduce(tensor, group=MIRROR), "[3]", "[4]", "disagree")
    # Different collectives are an error too, and neither ends the group.
    tensor = torch.zeros(4)
    raises(
        InvalidArgumentError,
        lambda: dist.all_reduce(tensor, group=MIRROR) if RANK == 0 else dist.broadcast(tensor, 0, group=MIRROR),
        "allreduce",
        "broadcast",
    )
    dist.all_reduce(mine := values(), group=MIRROR)
    same(mine, sum(everyone()))


ranks.call_tests(globals())
dist.barrier()
dist.destroy_process_group()
