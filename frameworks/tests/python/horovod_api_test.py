"""Horovod's calls as its documentation shows them: names, orders and defaults of arguments in its release 0.28.1, and the forms
that collectives_test.py and optimizer_test.py do not use."""

import inspect
import json
import os
import pathlib
import warnings

import ranks

ranks.start(__file__)

import torch

import xoe.torch as hvd
from xoe import initialize

hvd.init(comm=list(range(int(os.environ["XOE_SIZE"]))))
torch.set_num_threads(1)
RANK, SIZE = hvd.rank(), hvd.size()
TOTAL = sum(range(SIZE))

# Arguments in Horovod's order, with its defaults; those without "=" must be given.
_OP = "op=None|prescale_factor=1.0|postscale_factor=1.0|process_set=SET"
_REDUCE = f"name=None|{_OP}"
_SCATTER = "op=Average|process_set=SET|prescale_factor=1.0|postscale_factor=1.0"
_OPTIMIZER = "compression=NONE|backward_passes_per_step=1|op=Average|gradient_predivide_factor=1.0|num_groups=0|groups=None"
SIGNATURES = {
    "allreduce": f"tensor|average=None|name=None|compression=NONE|{_OP}",
    "allreduce_": f"tensor|average=None|{_REDUCE}",
    "allreduce_async": f"tensor|average=None|{_REDUCE}",
    "allreduce_async_": f"tensor|average=None|{_REDUCE}",
    "grouped_allreduce": f"tensors|average=None|name=None|compression=NONE|{_OP}",
    "grouped_allreduce_": f"tensors|average=None|{_REDUCE}",
    "grouped_allreduce_async": f"tensors|average=None|{_REDUCE}",
    "grouped_allreduce_async_": f"tensors|average=None|{_REDUCE}",
    "sparse_allreduce_async": "tensor|name|op|process_set=SET",
    "allgather": "tensor|name=None|process_set=SET",
    "allgather_async": "tensor|name=None|process_set=SET",
    "grouped_allgather": "tensors|name=None|process_set=SET",
    "grouped_allgather_async": "tensors|name=None|process_set=SET",
    "broadcast": "tensor|root_rank|name=None|process_set=SET",
    "broadcast_": "tensor|root_rank|name=None|process_set=SET",
    "broadcast_async": "tensor|root_rank|name=None|process_set=SET",
    "broadcast_async_": "tensor|root_rank|name=None|process_set=SET",
    "alltoall": "tensor|splits=None|name=None|process_set=SET",
    "alltoall_async": "tensor|splits=None|name=None|process_set=SET",
    "reducescatter": f"tensor|name=None|compression=NONE|{_SCATTER}",
    "reducescatter_async": f"tensor|name=None|{_SCATTER}",
    "grouped_reducescatter": f"tensors|name=None|compression=NONE|{_SCATTER}",
    "grouped_reducescatter_async": f"tensors|name=None|{_SCATTER}",
    "poll": "handle",
    "synchronize": "handle",
    "join": "device=-1",
    "barrier": "process_set=SET",
    "broadcast_parameters": "params|root_rank",
    "broadcast_optimizer_state": "optimizer|root_rank|model=None",
    "broadcast_object": "obj|root_rank=0|name=None|process_set=SET",
    "allgather_object": "obj|name=None",
    "DistributedOptimizer": f"optimizer|named_parameters=None|{_OPTIMIZER}|sparse_as_dense=False|process_set=SET",
    "SyncBatchNorm": "num_features|eps=1e-05|momentum=0.1|affine=True|track_running_stats=True|process_set=SET",
    "init": "comm=None|process_sets=None",
    "shutdown": "",
    "start_timeline": "file_path|mark_cycles=False",
    "stop_timeline": "",
    "add_process_set": "process_set",
    "remove_process_set": "process_set",
    "ProcessSet": "ranks_or_comm",
}
# fmt: off
QUESTIONS = (
    "rank", "size", "local_rank", "local_size", "cross_rank", "cross_size", "is_initialized",
    "mpi_threads_supported", "mpi_enabled", "mpi_built", "gloo_enabled", "gloo_built", "nccl_built", "ddl_built", "ccl_built",
    "cuda_built", "rocm_built",
)
# fmt: on


def values(rank, *shape):
    """Of this rank; small whole numbers."""
    return torch.randint(0, 5, shape or (4, 3), generator=torch.Generator().manual_seed(rank)).float()


def summed(*shape):
    return torch.stack([values(rank, *shape) for rank in range(SIZE)]).sum(0)


def same(one, other):
    torch.testing.assert_close(one, other)


def test_signatures():
    defaults = {"SET": hvd.global_process_set, "NONE": hvd.Compression.none, "Average": hvd.Average}
    for name, listed in SIGNATURES.items():
        ours = list(inspect.signature(getattr(hvd, name)).parameters.values())
        for argument, parameter in zip(filter(None, listed.split("|")), ours, strict=False):
            word, has_default, default = argument.partition("=")
            assert word == parameter.name, f"{name}: {parameter.name} stands where Horovod has {word}"
            if has_default:
                wanted = defaults[default] if default in defaults else eval(default)
                assert parameter.default == wanted, f"{name}: {word} is {parameter.default!r} unless given, not {wanted!r}"
        given = len(list(filter(None, listed.split("|"))))
        assert len(ours) >= given, f"{name} takes {len(ours)} arguments, Horovod {given}"
        for parameter in ours[given:]:
            assert parameter.default is not parameter.empty, f"{name}: {parameter.name} must be given"


def test_questions():
    for name in QUESTIONS:
        assert isinstance(getattr(hvd, name)(), (bool, int)), name
    assert [int(op) for op in (hvd.Average, hvd.Sum, hvd.Adasum, hvd.Min, hvd.Max, hvd.Product)] == [0, 1, 2, 3, 4, 5]
    assert issubclass(hvd.HorovodInternalError, RuntimeError)


def test_positional_arguments():
    sets = hvd.global_process_set
    same(hvd.allreduce(values(RANK), None, "p1", hvd.Compression.fp16, hvd.Sum, 0.5, 4.0, sets), 2 * summed())
    same(hvd.allreduce_(values(RANK), None, "p2", hvd.Sum, 0.5, 4.0, sets), 2 * summed())
    same(hvd.synchronize(hvd.allreduce_async(values(RANK), None, "p3", hvd.Sum, 0.5, 4.0, sets)), 2 * summed())
    same(hvd.synchronize(hvd.allreduce_async_(values(RANK), None, "p4", hvd.Sum, 0.5, 4.0, sets)), 2 * summed())

    def pair():
        return [values(RANK), values(RANK, 5)]

    for grouped in (
        hvd.grouped_allreduce(pair(), None, "p5", hvd.Compression.none, hvd.Sum, 0.5, 4.0, sets),
        hvd.grouped_allreduce_(pair(), None, "p6", hvd.Sum, 0.5, 4.0, sets),
        hvd.synchronize(hvd.grouped_allreduce_async(pair(), None, "p7", hvd.Sum, 0.5, 4.0, sets)),
        hvd.synchronize(hvd.grouped_allreduce_async_(tuple(pair()), None, "p8", hvd.Sum, 0.5, 4.0, sets)),
    ):
        same(grouped[0], 2 * summed())
        same(grouped[1], 2 * summed(5))
    every = torch.cat([values(rank) for rank in range(SIZE)])
    same(hvd.allgather(values(RANK), "p9", sets), every)
    same(hvd.synchronize(hvd.allgather_async(values(RANK), "p10", sets)), every)
    same(hvd.grouped_allgather(pair(), "p11", sets)[0], every)
    same(hvd.synchronize(hvd.grouped_allgather_async(pair(), "p12", sets))[0], every)
    last = values(SIZE - 1)
    same(hvd.broadcast(values(RANK), SIZE - 1, "p13", sets), last)
    same(hvd.broadcast_(values(RANK), SIZE - 1, "p14", sets), last)
    same(hvd.synchronize(hvd.broadcast_async(values(RANK), SIZE - 1, "p15", sets)), last)
    same(hvd.synchronize(hvd.broadcast_async_(values(RANK), SIZE - 1, "p16", sets)), last)
    received, counts = hvd.alltoall(torch.full((SIZE,), RANK), [1] * SIZE, "p17", sets)
    assert received.tolist() == list(range(SIZE)) and counts.tolist() == [1] * SIZE and counts.dtype == torch.int32
    same(hvd.synchronize(hvd.alltoall_async(torch.full((SIZE,), RANK), None, "p18", sets)), torch.arange(SIZE))
    rows = slice(2 * RANK, 2 * RANK + 2)
    whole = summed(2 * SIZE, 3)[rows]
    mine = values(RANK, 2 * SIZE, 3)
    same(hvd.reducescatter(mine, "p19", hvd.Compression.fp16, hvd.Sum, sets, 0.5, 4.0), 2 * whole)
    same(hvd.synchronize(hvd.reducescatter_async(mine, "p20", hvd.Sum, sets, 0.5, 4.0)), 2 * whole)
    same(hvd.grouped_reducescatter([mine, mine], "p21", hvd.Compression.none, hvd.Sum, sets, 0.5, 4.0)[1], 2 * whole)
    same(hvd.synchronize(hvd.grouped_reducescatter_async([mine, mine], "p22", hvd.Sum, sets, 0.5, 4.0))[1], 2 * whole)
    same(hvd.sparse_allreduce_async(values(RANK).to_sparse(1), "p23", hvd.Sum, sets)().to_dense(), summed())
    hvd.barrier(sets)


def test_average_in_its_old_place():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        same(hvd.allreduce(values(RANK), False), summed())
        same(hvd.allreduce_(values(RANK), True), summed() / SIZE)
        same(hvd.synchronize(hvd.allreduce_async(values(RANK), False, "old")), summed())
        same(hvd.grouped_allreduce([values(RANK)], average=False)[0], summed())


def test_metrics_and_polling():
    """Numbers that become tensors, as in the MNIST example, and handles that are asked before they are waited for."""
    assert hvd.allreduce(torch.tensor(float(RANK)), name="avg_loss").item() == TOTAL / SIZE
    handles = [hvd.allreduce_async(values(RANK), name=f"poll.{i}", op=hvd.Sum) for i in range(5)]
    while not all(hvd.poll(handle) for handle in handles):
        pass
    for handle in reversed(handles):
        same(hvd.synchronize(handle), summed())


def test_objects_by_name():
    assert hvd.broadcast_object({"epoch": RANK}, 0, "resume_from_epoch") == {"epoch": 0}
    assert hvd.broadcast_object(obj=[RANK], root_rank=SIZE - 1, name="last") == [SIZE - 1]
    assert hvd.allgather_object((RANK, "x"), "everyone") == [(rank, "x") for rank in range(SIZE)]
    resume = hvd.broadcast(torch.tensor(7 if RANK == 0 else 0), root_rank=0, name="resume_from_epoch").item()
    assert resume == 7


def model_of(seed):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2))


def test_three_forms_of_parameters():
    for form in ("state_dict", "named_parameters", "parameters"):
        model = model_of(RANK)
        hvd.broadcast_parameters(getattr(model, form)(), root_rank=0)
        for p, q in zip(model.parameters(), model_of(0).parameters(), strict=True):
            same(p, q)
    hvd.broadcast_parameters(list(model_of(RANK).named_parameters()), 0)


def test_optimizer_state_with_its_model():
    model = model_of(0)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1 * (RANK + 1), betas=(0.5, 0.9))
    if RANK == 0:  # only the root has stepped, as after a checkpoint was read
        model(values(0)).sum().backward()
        optimizer.step()
    hvd.broadcast_optimizer_state(optimizer, 0, model)
    assert optimizer.param_groups[0]["lr"] == 0.1 and len(optimizer.state_dict()["state"]) == 6
    named = hvd.DistributedOptimizer(
        optimizer, model.named_parameters(), hvd.Compression.none, 1, hvd.Average, 1.0, 0, None, False
    )
    hvd.broadcast_optimizer_state(named, root_rank=0)


def test_optimizer_state_of_a_large_model():
    parameters = [torch.nn.Parameter(torch.full((1,), float(RANK))) for _ in range(600)]
    optimizer = torch.optim.Adam(parameters, lr=0.1)
    for parameter in parameters:
        parameter.grad = torch.ones(1) * (RANK + 1)
    optimizer.step()
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    states = hvd.allgather_object([float(state["exp_avg"]) for state in optimizer.state_dict()["state"].values()])
    assert len(states[0]) == 600 and all(state == states[0] for state in states)


def test_more_nameless_operations_than_there_are_names():
    tensors = [torch.full((1,), float(i)) for i in range(1500)]
    if RANK == 0:
        handles = [hvd.allreduce_async_(tensor, op=hvd.Sum) for tensor in tensors]
        hvd.allreduce(torch.ones(1), name="the first has submitted all")
    else:
        hvd.allreduce(torch.ones(1), name="the first has submitted all")
        handles = [hvd.allreduce_async_(tensor, op=hvd.Sum) for tensor in tensors]
    for i, handle in enumerate(handles):
        assert hvd.synchronize(handle).item() == SIZE * i


class HalfTheRange(hvd.Compression.none):
    """A compressor as a user writes one."""

    @staticmethod
    def compress(tensor):
        return tensor / 2, 2.0

    @staticmethod
    def decompress(tensor, ctx):
        return tensor * ctx


def test_a_compressor_of_ones_own():
    same(hvd.allreduce(values(RANK), compression=HalfTheRange, op=hvd.Sum, name="halved"), summed())
    model = torch.nn.Linear(3, 1, bias=False)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), 1.0), compression=HalfTheRange)
    model(values(RANK)).sum().backward()
    optimizer.synchronize()
    same(model.weight.grad, summed().sum(0, keepdim=True) / SIZE)
    optimizer.zero_grad()


def test_uneven_data_and_join():
    """Each rank trains on so many batches as it has, then joins; twice, as at the end of two epochs."""
    model = torch.nn.Linear(3, 1)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.01), model.named_parameters())
    for _ in range(2):
        for step in range(RANK + 1):
            optimizer.zero_grad()
            model(values(step)).sum().backward()
            optimizer.step()
        assert hvd.join(hvd.local_rank()) == SIZE - 1
        hvd.broadcast_parameters(model.state_dict(), root_rank=SIZE - 1)
    assert isinstance(hvd.join(device=-1), int)


def test_process_sets_of_the_documentation():
    if SIZE < 4:
        return
    even, odd = hvd.add_process_set([0, 2]), hvd.add_process_set(hvd.ProcessSet([1, 3]))
    mine = odd if RANK % 2 else even
    assert even.ranks == [0, 2] and even.included() == (RANK % 2 == 0) and mine.rank() == RANK // 2 and mine.size() == 2
    wanted = sum(values(rank) for rank in mine.ranks)
    same(hvd.allreduce(values(RANK), op=hvd.Sum, process_set=mine), wanted)
    same(hvd.grouped_allreduce([values(RANK)], op=hvd.Average, process_set=mine)[0], wanted / 2)
    same(hvd.grouped_allgather([values(RANK)], process_set=mine)[0], torch.cat([values(rank) for rank in mine.ranks]))
    same(hvd.reducescatter(values(RANK), op=hvd.Sum, process_set=mine), wanted[2 * mine.rank() : 2 * mine.rank() + 2])
    same(hvd.alltoall(torch.tensor([RANK, RANK]), process_set=mine), torch.tensor(mine.ranks))
    same(hvd.sparse_allreduce_async(values(RANK).to_sparse(1), "sparse", hvd.Average, mine)().to_dense(), wanted / 2)
    x = values(RANK).requires_grad_()
    hvd.allreduce(x, op=hvd.Average, process_set=mine).sum().backward()
    same(x.grad, torch.ones_like(x))
    normal = hvd.SyncBatchNorm(3, process_set=mine)(values(RANK))
    same(hvd.allreduce(normal.detach().mean(0), process_set=mine), torch.zeros(3))
    assert hvd.remove_process_set(even) is True and hvd.remove_process_set(odd) is True
    assert hvd.remove_process_set(even) is False


def test_gradients_of_groups():
    xs = [values(RANK, SIZE, 2).requires_grad_(), values(RANK, 2 * SIZE).requires_grad_()]
    sum((RANK + 1) * y.sum() for y in hvd.grouped_allgather(xs)).backward()
    for x in xs:
        same(x.grad, torch.full_like(x, (SIZE + 1) / 2))
        x.grad = None
    sum((RANK + 1) * y.sum() for y in hvd.grouped_reducescatter(xs, op=hvd.Average)).backward()
    same(xs[0].grad, (torch.arange(SIZE) + 1.0)[:, None].expand(SIZE, 2))
    x = values(RANK, SIZE).requires_grad_()
    received, _ = hvd.alltoall(x, splits=torch.ones(SIZE, dtype=torch.int32))
    (received * (RANK + 1)).sum().backward()
    same(x.grad, torch.arange(SIZE) + 1.0)


def test_timeline():
    """Started and stopped by the program, without HOROVOD_TIMELINE=DYNAMIC."""
    folder = ranks.folder_for_all(RANK, hvd.broadcast_object, hvd.barrier)
    path = pathlib.Path(folder) / "timeline.json"
    hvd.start_timeline(str(path), mark_cycles=True)
    for _ in range(3):
        hvd.allreduce(values(RANK), name="traced")
    hvd.stop_timeline()
    hvd.barrier()
    if RANK == 0:
        text = path.read_text()
        assert "traced" in text
        json.loads(text if text.rstrip().endswith("]") or text.startswith("{") else text.rstrip().rstrip(",") + "]")


def test_timelines_with_a_path_for_each_rank():
    """Rank 0's counts, as in Horovod, where rank 0 alone writes; also if rank 0 alone names one, or another rank does."""
    folder = pathlib.Path(ranks.folder_for_all(RANK, hvd.broadcast_object, hvd.barrier))
    hvd.start_timeline(str(folder / f"started.{RANK}.json"))
    hvd.allreduce(values(RANK), name="traced")
    hvd.stop_timeline()
    for given in ("every", "first", "last"):
        hvd.barrier()
        hvd.shutdown()
        if given == "every" or RANK == (0 if given == "first" else SIZE - 1):
            os.environ["HOROVOD_TIMELINE"] = str(folder / f"{given}.{RANK}.json")
        hvd.init()
        hvd.allreduce(values(RANK), name="traced")
        os.environ.pop("HOROVOD_TIMELINE", None)
    hvd.barrier()
    hvd.shutdown()
    hvd.init()
    wanted = {"started.0.json", "every.0.json", "first.0.json"} | ({"last.0.json"} if SIZE == 1 else set())
    assert {path.name for path in folder.iterdir()} == wanted
    assert all("traced" in path.read_text() for path in folder.iterdir())


def test_a_world_is_formed_again_as_it_was():
    """With the group, and the process sets, of the program's init()."""
    hvd.barrier()
    hvd.shutdown()
    whole = hvd.ProcessSet(range(SIZE)) if SIZE > 1 else None
    hvd.init(comm=range(SIZE - 1, -1, -1), process_sets=[whole] if whole else None)
    for _ in range(2):
        assert hvd.rank() == SIZE - 1 - RANK and hvd.size() == SIZE
        assert whole is None or whole.size() == SIZE
        initialize.re_form()
    hvd.shutdown()
    hvd.init()


def test_elastic_state():
    model = model_of(RANK)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    sampler = hvd.elastic.ElasticSampler(list(range(10 * SIZE)), shuffle=True, seed=3)
    state = hvd.elastic.TorchState(model, optimizer, sampler=sampler, epoch=RANK, batch=0)
    calls = []

    @hvd.elastic.run
    def train(state, extra, word=None):
        calls.append((state.epoch, extra, word))
        state.epoch, state.batch = 5, 6
        state.commit()
        state.check_host_updates()
        state.epoch = 7
        state.model[0].weight.data.zero_()
        state.restore()
        return state.epoch

    assert train(state, 1, word="x") == 5 and calls == [(0, 1, "x")]
    same(model[0].weight, model_of(0)[0].weight)
    dealt = list(sampler)
    assert sorted(index for part in hvd.allgather_object(dealt) for index in part) == list(range(10 * SIZE))
    sampler.record_batch(0, 4)
    sampler.load_state_dict(sampler.state_dict())
    rest = {index for part in hvd.allgather_object(list(sampler)) for index in part}
    assert len(sampler) == 6 and len(rest) == 6 * SIZE
    assert rest.isdisjoint(index for part in hvd.allgather_object(dealt[:4]) for index in part)
    sampler.set_epoch(1)
    assert len(sampler) == 10 and list(sampler) != dealt


def test_what_the_guide_promises_beyond_horovod():
    mixed = hvd.grouped_allreduce([values(RANK), torch.tensor([RANK, 1]), values(RANK).to(torch.bfloat16)], op=hvd.Sum)
    same(mixed[0], summed())
    assert mixed[1].tolist() == [TOTAL, SIZE] and mixed[2].dtype == torch.bfloat16
    greatest = torch.stack([values(rank, SIZE, 2) for rank in range(SIZE)]).amax(0)
    same(hvd.reducescatter(values(RANK, SIZE, 2), op=hvd.Max), greatest[RANK : RANK + 1])
    assert hvd.allgather(torch.tensor(RANK)).tolist() == list(range(SIZE))
    assert hvd.is_homogeneous() is True
    if SIZE == 1:
        return
    backwards = hvd.add_process_set(range(SIZE - 1, -1, -1))
    assert backwards.rank() == SIZE - 1 - RANK
    assert hvd.allgather(torch.tensor([RANK]), process_set=backwards).tolist() == list(range(SIZE))[::-1]
    assert hvd.allgather_object(RANK, process_set=backwards) == list(range(SIZE))[::-1]
    model = model_of(RANK)
    hvd.broadcast_parameters(model.state_dict(), root_rank=1, process_set=backwards)
    same(model[0].weight, model_of(1)[0].weight)
    adasum = hvd.allreduce(torch.ones(3), op=hvd.Adasum, process_set=backwards)
    same(adasum, torch.ones(3))
    hvd.remove_process_set(backwards)
    if RANK == 0:
        hvd.join()
    else:
        mine = torch.tensor([RANK])
        gathered = hvd.allgather_async(mine, name="without the first", needs_all_ranks=False).wait()
        assert gathered.tolist() == list(range(1, SIZE))
        assert hvd.broadcast_async(mine, SIZE - 1, name="from the last", needs_all_ranks=False).wait().item() == SIZE - 1
        hvd.join()


def test_what_needs_all_ranks_after_a_join():
    """Errors in Horovod: programs that expect them would fall out of step otherwise."""
    if SIZE == 1:
        return
    x = values(RANK)
    operations = (
        lambda: hvd.allgather(x, name="joined"),
        lambda: hvd.grouped_allgather([x, x], name="joined"),
        lambda: hvd.broadcast(x, SIZE - 1, name="joined"),
        lambda: hvd.broadcast_(x, SIZE - 1, name="joined"),
        lambda: hvd.alltoall(torch.arange(SIZE), name="joined"),
        lambda: hvd.allgather_object(RANK),
        lambda: hvd.broadcast_object(RANK, SIZE - 1),
    )
    if RANK > 0:
        for operation in operations:
            try:
                operation()
            except RuntimeError as error:
                assert "joined" in str(error), error
            else:
                raise AssertionError("it ran without rank 0")
        same(hvd.allreduce(x, op=hvd.Sum), sum(values(rank) for rank in range(1, SIZE)))
    last = hvd.join()
    assert last != 0 and hvd.allgather_object(last) == [last] * SIZE


def test_errors_are_runtime_errors():
    """Horovod raises RuntimeError for most of them, ValueError for others: these are both."""
    model = model_of(0)
    plain = torch.optim.SGD(model.parameters(), lr=0.1)
    for call in (
        lambda: hvd.reducescatter(values(RANK, SIZE), op=hvd.Adasum),
        lambda: hvd.sparse_allreduce_async(values(RANK).to_sparse(), "min", hvd.Min),
        lambda: hvd.allreduce(values(RANK), average=True, op=hvd.Sum),
        lambda: hvd.DistributedOptimizer(plain, backward_passes_per_step=0),
        lambda: hvd.DistributedOptimizer(plain, op=hvd.Sum, gradient_predivide_factor=2.0),
        lambda: hvd.DistributedOptimizer(plain, list(model.named_parameters())[:1]),
        lambda: hvd.broadcast_parameters(3),
    ):
        for kind in (RuntimeError, ValueError):
            try:
                call()
            except kind:
                continue
            raise AssertionError(f"no {kind}")


def test_start_again_with_process_sets_named_dynamic():
    hvd.barrier()
    hvd.shutdown()
    hvd.init(process_sets="dynamic")
    whole = hvd.add_process_set(range(SIZE)) if SIZE > 1 else hvd.global_process_set
    same(hvd.allreduce(values(RANK), op=hvd.Sum, process_set=whole), summed())
    hvd.shutdown()
    hvd.init()


ranks.call_tests(globals())
