"""Every collective of xoe.torch, in the ways Horovod's documentation calls them, against what PyTorch computes."""

import os
import pickle
import warnings

import ranks
from checks import raises

ranks.start(__file__)

import numpy
import torch

import xoe
import xoe.torch as hvd

hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def values(rank, dtype=torch.float32, shape=(3, 5)):
    """What a rank gives: small numbers, exact in every type."""
    generator = torch.Generator().manual_seed(100 + rank)
    return torch.randint(0, 4, shape, generator=generator).to(dtype)


def everyone(dtype=torch.float32, shape=(3, 5)):
    return [values(rank, dtype, shape) for rank in range(SIZE)]


def test_zeros_of_both_signs():
    """A minimum takes -0.0 and a maximum 0.0, on whatever rank they are."""
    for dtype in FLOATS:
        for negative in range(SIZE):
            for count in (3, 50_000):
                mine = torch.full((count,), -0.0 if RANK == negative else 0.0, dtype=dtype)
                assert hvd.allreduce(mine, op=hvd.Min).signbit().all(), (dtype, negative, count)
                assert hvd.allreduce(mine, op=hvd.Max).signbit().all() == (SIZE == 1), (dtype, negative, count)


def test_averages_of_the_largest_numbers():
    """They lie between their inputs, although sums of these do not fit into the type."""
    for dtype in INTEGERS:
        least, most = torch.iinfo(dtype).min, torch.iinfo(dtype).max
        inputs = [[most, least, most - rank, most if rank % 2 == 0 else least] for rank in range(SIZE)]
        for repeats in (1, 20_000):
            mine = torch.tensor(inputs[RANK], dtype=dtype).repeat(repeats)
            sums = [sum(column) for column in zip(*inputs, strict=True)]
            wanted = torch.tensor([abs(s) // SIZE * (1 if s >= 0 else -1) for s in sums], dtype=dtype).repeat(repeats)
            torch.testing.assert_close(hvd.allreduce(mine, op=hvd.Average), wanted, rtol=0, atol=0)


def test_where():
    counts = [int(count) for count in os.environ.get("XOE_TEST_LAYOUT", str(SIZE)).split(",")]  # ranks by host
    host, local = [(host, local) for host, count in enumerate(counts) for local in range(count)][RANK]
    alike = [other for other, count in enumerate(counts) if count > local]  # hosts with such a local rank
    assert hvd.is_initialized()
    assert (hvd.local_rank(), hvd.local_size()) == (local, counts[host])
    assert (hvd.cross_rank(), hvd.cross_size()) == (alike.index(host), len(alike))
    assert hvd.is_homogeneous() == (len(set(counts)) == 1)
    hvd.init()  # a second time: nothing happens
    assert hvd.size() == SIZE


def test_what_is_built():
    assert hvd.gloo_built() and hvd.gloo_enabled()
    assert hvd.mpi_built() and hvd.mpi_enabled() and hvd.mpi_threads_supported()
    assert hvd.nccl_built() >= 2700 and hvd.cuda_built()  # programs compare versions
    assert not hvd.rocm_built() and not hvd.ddl_built() and not hvd.ccl_built()


def test_allreduce_of_each_type():
    for dtype in FLOATS + INTEGERS:
        stacked = torch.stack(everyone(dtype)).to(torch.float64)
        for op, wanted in (
            (hvd.Sum, stacked.sum(0)),
            (hvd.Average, stacked.mean(0) if dtype in FLOATS else (stacked.sum(0) / SIZE).trunc()),
            (hvd.Min, stacked.amin(0)),
            (hvd.Max, stacked.amax(0)),
            (hvd.Product, stacked.prod(0)),
        ):
            mine = values(RANK, dtype)
            result = hvd.allreduce(mine, op=op, name=f"{op.name}.{dtype}")
            assert result.dtype == dtype and result.shape == mine.shape
            assert torch.equal(mine, values(RANK, dtype)), "the input was changed"
            torch.testing.assert_close(result.double(), wanted.to(dtype).double(), rtol=1e-2, atol=0)


def test_allreduce_is_an_average_unless_told():
    torch.testing.assert_close(hvd.allreduce(values(RANK)), torch.stack(everyone()).mean(0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.testing.assert_close(hvd.allreduce(values(RANK), average=False), torch.stack(everyone()).sum(0))
        torch.testing.assert_close(hvd.allreduce(values(RANK), average=True), torch.stack(everyone()).mean(0))
        raises(ValueError, lambda: hvd.allreduce(values(RANK), average=True, op=hvd.Sum), "not both")


def test_allreduce_in_place():
    tensor = values(RANK)
    result = hvd.allreduce_(tensor, op=hvd.Sum, name="in place")
    assert result is tensor
    torch.testing.assert_close(tensor, torch.stack(everyone()).sum(0))
    handle = hvd.allreduce_async_(tensor, name="in place")
    assert hvd.synchronize(handle) is tensor
    assert hvd.poll(handle)
    torch.testing.assert_close(tensor, torch.stack(everyone()).sum(0))


def test_scales():
    wanted = torch.stack(everyone()).sum(0) * 0.5 * 3
    result = hvd.allreduce(values(RANK), op=hvd.Sum, prescale_factor=0.5, postscale_factor=3.0)
    torch.testing.assert_close(result, wanted)
    halved = hvd.allreduce(torch.tensor([2 * RANK, 4]), op=hvd.Sum, postscale_factor=0.5)
    assert halved.tolist() == [sum(range(SIZE)), 2 * SIZE]


def test_bools():
    mine = torch.tensor([RANK == 0, True, False])
    assert hvd.allreduce(mine, op=hvd.Max).tolist() == [True, True, False]
    assert hvd.allreduce(mine, op=hvd.Min).tolist() == [SIZE == 1, True, False]
    assert hvd.allgather(mine).tolist() == [v for r in range(SIZE) for v in (r == 0, True, False)]


def test_complex_numbers():
    mine = torch.complex(values(RANK), values(RANK + 50))
    wanted = sum(torch.complex(values(r), values(r + 50)) for r in range(SIZE))
    torch.testing.assert_close(hvd.allreduce(mine, op=hvd.Sum), wanted)
    torch.testing.assert_close(hvd.allreduce(mine.conj(), op=hvd.Sum), wanted.conj().resolve_conj())
    torch.testing.assert_close(hvd.allgather(mine)[3 * RANK : 3 * RANK + 3], mine)
    torch.testing.assert_close(hvd.broadcast(mine, SIZE - 1), torch.complex(values(SIZE - 1), values(SIZE + 49)))
    raises(hvd.XoeError, lambda: hvd.allreduce(mine, op=hvd.Max), "complex", "max")


def test_types_that_only_move():
    if hasattr(torch, "uint16"):
        mine = torch.tensor([RANK, 65535 - RANK], dtype=torch.uint16)
        assert hvd.allgather(mine).to(torch.int64).tolist() == [v for r in range(SIZE) for v in (r, 65535 - r)]
        wanted = [sum(range(SIZE)) % 65536, sum(65535 - r for r in range(SIZE)) % 65536]
        assert hvd.allreduce(mine, op=hvd.Sum).to(torch.int64).tolist() == wanted
        raises(hvd.XoeError, lambda: hvd.allreduce(mine, op=hvd.Max), "uint16")
    eighth = torch.tensor([0.5, 1.0]).to(torch.float8_e4m3fn)
    assert hvd.broadcast(eighth, 0).dtype == torch.float8_e4m3fn
    raises(hvd.XoeError, lambda: hvd.allreduce(eighth), "float8")


def test_tensors_that_are_not_contiguous():
    whole = values(RANK, shape=(6, 4))
    wanted = torch.stack(everyone(shape=(6, 4))).sum(0)
    torch.testing.assert_close(hvd.allreduce(whole.t(), op=hvd.Sum), wanted.t())
    strided = whole.clone()[::2]
    hvd.allreduce_(strided, op=hvd.Sum)
    torch.testing.assert_close(strided, wanted[::2])
    images = values(RANK, shape=(2, 3, 4, 5)).to(memory_format=torch.channels_last)
    torch.testing.assert_close(hvd.allreduce(images, op=hvd.Sum), torch.stack(everyone(shape=(2, 3, 4, 5))).sum(0))
    transposed = whole.clone().t()
    hvd.broadcast_(transposed, 0)
    torch.testing.assert_close(transposed, values(0, shape=(6, 4)).t())
    negative = torch.complex(values(RANK), values(RANK)).conj().imag  # a view with its sign to be changed
    torch.testing.assert_close(hvd.allreduce(negative, op=hvd.Sum), -torch.stack(everyone()).sum(0))


def test_empty_and_scalar_tensors():
    assert hvd.allreduce(torch.empty(0, 3)).shape == (0, 3)
    assert hvd.allreduce(torch.tensor(float(RANK)), op=hvd.Sum).item() == sum(range(SIZE))
    assert hvd.allgather(torch.empty(0, 3)).shape == (0, 3)
    assert hvd.allgather(torch.tensor(RANK)).tolist() == list(range(SIZE))


def test_what_cannot_be_reduced():
    raises(hvd.XoeError, lambda: hvd.allreduce(torch.empty(3, device="meta")), "meta")
    raises(hvd.XoeError, lambda: hvd.allreduce(torch.eye(3).to_sparse()), "sparse_allreduce_async")


def test_groups():
    shapes = ((2, 3), (7,), (1, 2, 2))
    mine = [values(RANK, shape=shape) for shape in shapes]
    wanted = [torch.stack(everyone(shape=shape)).sum(0) for shape in shapes]
    for results in (
        hvd.grouped_allreduce(mine, op=hvd.Sum),
        hvd.synchronize(hvd.grouped_allreduce_async(mine, op=hvd.Sum, name="group")),
        hvd.grouped_allreduce_([tensor.clone() for tensor in mine], op=hvd.Sum),
        hvd.synchronize(hvd.grouped_allreduce_async_([tensor.clone() for tensor in mine], op=hvd.Sum)),
    ):
        for result, right in zip(results, wanted, strict=True):
            torch.testing.assert_close(result, right)
    gathered = hvd.grouped_allgather(mine, name="gathered")
    for result, shape in zip(gathered, shapes, strict=True):
        torch.testing.assert_close(result, torch.cat(everyone(shape=shape)))
    again = hvd.synchronize(hvd.grouped_allgather_async(mine))
    assert all(torch.equal(one, other) for one, other in zip(gathered, again, strict=True))
    scattered = hvd.grouped_reducescatter(mine[:2], op=hvd.Sum)
    also = hvd.synchronize(hvd.grouped_reducescatter_async(mine[:2], op=hvd.Sum))
    for result, other, right in zip(scattered, also, wanted, strict=False):
        torch.testing.assert_close(result, part(right))
        torch.testing.assert_close(other, result)


def part(tensor):
    """This rank's rows of a reduced tensor: the first ranks have one more."""
    each, more = divmod(tensor.shape[0], SIZE)
    first = RANK * each + min(RANK, more)
    return tensor[first : first + each + (RANK < more)]


def test_sparse_tensors():
    dense = torch.zeros(6, 2)
    dense[RANK] = 1.0 + RANK
    dense[5] = 1.0
    others = []
    for rank in range(SIZE):
        one = torch.zeros(6, 2)
        one[rank] = 1.0 + rank
        one[5] = 1.0
        others.append(one)
    handle = hvd.sparse_allreduce_async(dense.to_sparse(1), name="sparse", op=hvd.Average)
    torch.testing.assert_close(hvd.synchronize(handle).to_dense(), torch.stack(others).mean(0))
    handle = hvd.sparse_allreduce_async(dense.to_sparse(), name="sparse", op=hvd.Sum)  # both dimensions sparse
    torch.testing.assert_close(handle().to_dense(), torch.stack(others).sum(0))
    empty = torch.zeros(4, 2).to_sparse(1) if RANK > 0 else torch.eye(4, 2).to_sparse(1)
    torch.testing.assert_close(hvd.sparse_allreduce_async(empty, "empty", hvd.Sum)().to_dense(), torch.eye(4, 2))


def test_sparse_tensors_of_different_shapes():
    """Indices alone do not tell: they count in tensors of different shapes."""
    if SIZE == 1:
        return
    for shapes in (((3,), (5,)), ((2, 3), (3, 2)), ((4, 2), (5, 2))):
        shape = shapes[min(RANK, 1)]
        mine = torch.zeros(shape)
        mine[0] = 1.0
        error = raises(
            hvd.MismatchError, hvd.sparse_allreduce_async(mine.to_sparse(), "shapes").wait, *(str(list(s)) for s in shapes)
        )
        assert "0" in str(error) and "1" in str(error)
    raises(ValueError, lambda: hvd.sparse_allreduce_async(torch.ones(3), "dense"), "sparse COO")


def test_what_is_no_tensor():
    given = [1.0, 2.0]
    for wrong, words in ((given, ("list", "torch.tensor(...)")), (numpy.ones(3), ("numpy.ndarray", "torch.from_numpy(...)"))):
        for call in (
            lambda x: hvd.allreduce(x),
            lambda x: hvd.allreduce(x, compression=hvd.Compression.fp16),
            lambda x: hvd.allreduce_(x),
            lambda x: hvd.allreduce_async(x),
            lambda x: hvd.grouped_allreduce([torch.ones(1), x]),
            lambda x: hvd.grouped_allreduce_([x]),
            lambda x: hvd.sparse_allreduce_async(x, "x", hvd.Sum),
            lambda x: hvd.allgather(x),
            lambda x: hvd.grouped_allgather([x]),
            lambda x: hvd.broadcast(x, 0),
            lambda x: hvd.broadcast_(x, 0),
            lambda x: hvd.alltoall(x),
            lambda x: hvd.reducescatter(x),
            lambda x: hvd.reducescatter_async(x),
            lambda x: hvd.broadcast_parameters([x]),
            lambda x: hvd.broadcast_parameters([("x", x)]),
        ):
            raises(TypeError, lambda call=call, wrong=wrong: call(wrong), *words)
    same = hvd.allreduce(torch.ones(1))  # no rank has counted one of them as an operation
    assert same.item() == 1


def test_allgather():
    mine = values(RANK, shape=(RANK + 1, 2))
    wanted = torch.cat([values(rank, shape=(rank + 1, 2)) for rank in range(SIZE)])
    torch.testing.assert_close(hvd.allgather(mine, name="gather"), wanted)
    torch.testing.assert_close(hvd.synchronize(hvd.allgather_async(mine)), wanted)


def test_broadcast():
    for root in range(SIZE):
        mine = values(RANK)
        torch.testing.assert_close(hvd.broadcast(mine, root, name="b"), values(root))
        torch.testing.assert_close(mine, values(RANK))
        assert hvd.broadcast_(mine, root_rank=root) is mine
        torch.testing.assert_close(mine, values(root))
    torch.testing.assert_close(hvd.synchronize(hvd.broadcast_async(values(RANK), 0)), values(0))
    torch.testing.assert_close(hvd.synchronize(hvd.broadcast_async_(values(RANK), 0)), values(0))


def test_alltoall():
    rows = torch.arange(SIZE * 2).reshape(SIZE * 2, 1) + 100 * RANK
    wanted = torch.cat([torch.arange(2 * RANK, 2 * RANK + 2).reshape(2, 1) + 100 * rank for rank in range(SIZE)])
    torch.testing.assert_close(hvd.alltoall(rows), wanted)
    splits = torch.tensor([RANK + 1] * SIZE)
    received, counts = hvd.alltoall(torch.full(((RANK + 1) * SIZE,), float(RANK)), splits=splits, name="uneven")
    assert counts.tolist() == [rank + 1 for rank in range(SIZE)]
    assert received.tolist() == [float(rank) for rank in range(SIZE) for _ in range(rank + 1)]
    received, counts = hvd.synchronize(hvd.alltoall_async(torch.arange(SIZE), splits=[1] * SIZE))
    assert received.tolist() == [RANK] * SIZE and counts.tolist() == [1] * SIZE
    for wrong in (torch.ones(SIZE), [1.0] * SIZE, [[1]] * SIZE):
        raises(ValueError, lambda splits=wrong: hvd.alltoall(torch.arange(SIZE), splits), "one integer for each rank")


def test_reducescatter():
    summed = torch.stack(everyone(shape=(7, 2))).sum(0)
    torch.testing.assert_close(hvd.reducescatter(values(RANK, shape=(7, 2)), op=hvd.Sum), part(summed))
    torch.testing.assert_close(hvd.reducescatter(values(RANK, shape=(7, 2))), part(summed / SIZE))
    handle = hvd.reducescatter_async(values(RANK, shape=(7, 2)), op=hvd.Sum, prescale_factor=2.0)
    torch.testing.assert_close(hvd.synchronize(handle), part(summed * 2))


def test_objects():
    thing = {"rank": RANK, "tensor": torch.arange(RANK + 1), "text": "x" * 10000 * RANK}
    for root in range(SIZE):
        got = hvd.broadcast_object(thing if RANK == root else None, root_rank=root)
        assert got["rank"] == root and got["tensor"].tolist() == list(range(root + 1))
    assert [one["rank"] for one in hvd.allgather_object(thing, name="things")] == list(range(SIZE))
    assert hvd.broadcast_object(lambda: 7, 0)() == 7


def test_adasum():
    mine = torch.tensor([1.0, 0.0]) if RANK % 2 == 0 else torch.tensor([0.0, 1.0])
    result = hvd.allreduce(mine, op=hvd.Adasum)
    if SIZE == 2:  # orthogonal: the sum
        torch.testing.assert_close(result, torch.tensor([1.0, 1.0]))
    same = hvd.allreduce(torch.tensor([1.0, 2.0]), op=hvd.Adasum)  # parallel: the average
    torch.testing.assert_close(same, torch.tensor([1.0, 2.0]))


def test_compression():
    mine = values(RANK)
    wanted = torch.stack(everyone()).mean(0)
    for compression in (hvd.Compression.none, hvd.Compression.fp16, hvd.Compression.bf16, hvd.Compression.fp8):
        result = hvd.allreduce(mine, compression=compression, name=f"c{compression}")
        assert result.dtype == mine.dtype
        torch.testing.assert_close(result, wanted, rtol=0.1, atol=0.1)


def test_names_tell_mismatches():
    if SIZE == 1:
        return
    shape = (2, 3) if RANK == 0 else (3, 2)
    error = raises(hvd.MismatchError, lambda: hvd.allreduce(torch.ones(shape), name="wrong"), "wrong", "[2, 3]", "[3, 2]")
    assert 0 in error.ranks
    assert (1 if "XOE_TEST_LAYOUT" in os.environ else SIZE - 1) in error.ranks  # of several hosts, one tells of its own ranks
    torch.testing.assert_close(hvd.allreduce(torch.ones(2)), torch.ones(2))  # the others go on


def test_a_name_is_used_once_at_a_time():
    if SIZE == 1:
        return
    first = hvd.allreduce_async(torch.ones(1 << 20), name="twice")
    try:
        second = hvd.allreduce_async(torch.ones(1 << 20), name="twice")
    except hvd.XoeError as error:
        assert "twice" in str(error)
        second = None
    hvd.synchronize(first)
    # A rank where the first had ended already waits for those where it had not.
    done = hvd.allreduce(torch.tensor([1.0 if second is not None else 0.0]), op=hvd.Sum, name="who").item()
    if second is not None and done == SIZE:
        hvd.synchronize(second)


def test_handles_may_be_dropped():
    for step in range(50):
        hvd.allreduce_async_(torch.ones(1000), name=f"dropped {step}")
    torch.testing.assert_close(hvd.allreduce(torch.ones(3)), torch.ones(3))


def test_process_sets():
    if SIZE < 3:
        return
    even, odd = hvd.ProcessSet(range(0, SIZE, 2)), hvd.ProcessSet([r for r in range(SIZE) if r % 2 == 1])
    assert hvd.add_process_set(even) is even
    hvd.add_process_set(odd)
    mine = even if RANK % 2 == 0 else odd
    assert mine.included() and mine.ranks[mine.rank()] == RANK and mine.size() == len(mine.ranks)
    assert hvd.global_process_set.size() == SIZE and hvd.global_process_set.rank() == RANK
    summed = hvd.allreduce(torch.tensor([float(RANK)]), op=hvd.Sum, process_set=mine)
    assert summed.item() == sum(mine.ranks)
    assert hvd.allgather(torch.tensor([RANK]), process_set=mine).tolist() == mine.ranks
    assert hvd.broadcast(torch.tensor([RANK]), mine.ranks[-1], process_set=mine).item() == mine.ranks[-1]
    assert hvd.broadcast_object(RANK, mine.ranks[0], process_set=mine) == mine.ranks[0]
    assert hvd.allgather_object(RANK, process_set=mine) == mine.ranks
    hvd.barrier(process_set=mine)
    other = odd if mine is even else even
    raises(hvd.XoeError, lambda: hvd.allreduce(torch.ones(1), process_set=other), str(RANK))
    raises(hvd.XoeError, lambda: other.rank(), str(RANK))
    assert hvd.remove_process_set(odd) and not hvd.remove_process_set(hvd.global_process_set)
    raises(hvd.XoeError, lambda: odd.included(), "add_process_set")
    assert pickle.loads(pickle.dumps(even)).ranks == even.ranks


def test_what_has_no_gradient_says_so():
    """The gradient of a sum is no gradient of a maximum."""
    for op in (hvd.Max, hvd.Min, hvd.Product):
        x = torch.full((2, SIZE), float(RANK + 1), requires_grad=True)
        for result in (hvd.allreduce(x, op=op), hvd.grouped_allreduce([x, x], op=op)[0]):
            try:
                result.sum().backward()
            except xoe.UnsupportedError as error:
                assert "has no gradient" in str(error)
            else:
                raise AssertionError(f"{op}: gradients of a sum")
        assert x.grad is None


def test_gradients_flow_through():
    x = values(RANK).requires_grad_()
    hvd.allreduce(x, op=hvd.Sum).mul(RANK + 1.0).sum().backward()
    torch.testing.assert_close(x.grad, torch.full_like(x, SIZE * (SIZE + 1) / 2))
    x = values(RANK, shape=(RANK + 1, 2)).requires_grad_()
    (hvd.allgather(x) * (RANK + 1.0)).sum().backward()
    torch.testing.assert_close(x.grad, torch.full_like(x, (SIZE + 1) / 2))  # Horovod's: the average over ranks
    x = values(RANK).requires_grad_()
    (hvd.broadcast(x, 0) * (RANK + 1.0)).sum().backward()
    torch.testing.assert_close(x.grad, torch.full_like(x, (SIZE + 1) / 2 if RANK == 0 else 0.0))
    x = torch.ones(SIZE, requires_grad=True)
    (hvd.alltoall(x) * (RANK + 1.0)).sum().backward()
    assert x.grad.tolist() == [rank + 1.0 for rank in range(SIZE)]
    x = torch.ones(2 * SIZE, requires_grad=True)
    (hvd.reducescatter(x, op=hvd.Sum) * (RANK + 1.0)).sum().backward()
    assert x.grad.tolist() == [SIZE * (rank + 1.0) for rank in range(SIZE) for _ in range(2)]
    xs = [values(RANK).requires_grad_(), values(RANK).requires_grad_()]
    sum(t.sum() for t in hvd.grouped_allreduce(xs, op=hvd.Average)).backward()
    torch.testing.assert_close(xs[1].grad, torch.ones_like(xs[1]))


def test_join():
    if RANK == 0:
        last = hvd.join()
    else:
        summed = hvd.allreduce(torch.ones(4), op=hvd.Sum, name="joined")
        torch.testing.assert_close(summed, torch.full((4,), SIZE - 1.0))
        last = hvd.join()
    assert 0 <= last < SIZE and len(set(hvd.allgather_object(last))) == 1


def test_shut_down_and_start_again():
    hvd.barrier()
    hvd.shutdown()
    assert not hvd.is_initialized()
    raises(ValueError, hvd.rank, "init()")  # as Horovod
    raises(hvd.HorovodInternalError, lambda: hvd.allreduce(torch.ones(1)), "init()")
    sets = [hvd.ProcessSet([0]), hvd.ProcessSet(list(range(SIZE)))]
    hvd.init(process_sets=sets)
    assert sets[1].size() == SIZE
    torch.testing.assert_close(hvd.allreduce(torch.ones(2), op=hvd.Sum, process_set=sets[1]), torch.full((2,), float(SIZE)))


ranks.call_tests(globals())
