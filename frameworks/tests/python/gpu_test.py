"""GPU tensors as far as they can be tried without a GPU: which operations work where the tensors are, what XOE_GPU says, and
memory for results from Python. cuda_test.py runs the rest where there is a GPU."""

import os
import types

os.environ.setdefault("XOE_GPU", "auto")

import ranks

ranks.start(__file__, sizes=(1, 2))

import torch

import xoe
import xoe.torch as hvd
from xoe import _core, world
from xoe.torch import gpu

hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()


gpu._is_capturing = lambda: False  # PyTorch would look for a GPU


def on_gpu(dtype, layout=torch.strided):
    return types.SimpleNamespace(is_cuda=True, layout=layout, dtype=dtype)


def with_gpu(takes):
    """Makes the world say that it takes GPU tensors, or not."""
    world.current()._takes_gpu = takes


def test_where_operations_work():
    with_gpu(True)
    float32, half, int16, int64 = (on_gpu(t) for t in (torch.float32, torch.float16, torch.int16, torch.int64))
    assert gpu.choose_device([torch.ones(1)]) == "cpu"
    assert gpu.choose_device([]) == "cpu"
    assert gpu.choose_device([float32]) == "cuda"
    assert gpu.choose_device([float32, half, on_gpu(torch.bfloat16)], "average") == "cuda"
    for tensor in (half, int16, int64, on_gpu(torch.uint16)):  # also what NCCL lacks: the engine stages it
        for reduction in ("sum", "average", "max", None):
            assert gpu.choose_device([tensor], reduction) == "cuda"
    assert gpu.choose_device([on_gpu(torch.complex64)], "sum") == "cuda"
    assert gpu.choose_device([float32], "adasum") == "cpu"
    assert gpu.choose_device([float32, torch.ones(1)], "sum") == "cpu"
    assert gpu.choose_device([on_gpu(torch.float32, torch.sparse_coo)]) == "cpu"
    with_gpu(False)
    assert gpu.choose_device([float32], "sum") == "cpu"
    with_gpu(None)


def test_a_capture_is_no_place_for_copies():
    with_gpu(False)
    gpu._is_capturing = lambda: True
    try:
        gpu.choose_device([on_gpu(torch.float32)], "sum")
    except xoe.UnsupportedError as error:
        assert "torch.cuda.graph" in str(error), error
    else:
        raise AssertionError("nothing was raised")
    finally:
        gpu._is_capturing = lambda: False
        with_gpu(None)
    assert gpu.choose_device([torch.ones(1)]) == "cpu"


class Ordered:
    """An operation on a GPU that has been started."""

    def __init__(self, log, error=None):
        self.log, self.error = log, error

    def wait_in_stream(self, stream):
        self.log.append(stream)
        if self.error is not None:
            raise self.error


def test_a_work_makes_each_stream_wait():
    """With XOE_GPU_WAIT=stream: the thread that completes it, and later one that uses the result in another stream."""
    from xoe.torch.distributed.completer import Completer
    from xoe.torch.distributed.work import Work

    streams, log = iter((7, 8, 9)), []
    real, torch.cuda.current_stream = torch.cuda.current_stream, lambda device: types.SimpleNamespace(cuda_stream=next(streams))
    try:
        sequence = types.SimpleNamespace(add_work=lambda: 0)
        device = torch.device("cuda", 0)
        work = Work([Ordered(log)], None, [torch.ones(1)], Completer("test"), sequence, device=device)
        work.complete()
        assert log == [7] and work.is_completed()
        assert work.wait() and log == [7, 8], log
        failed = Work([Ordered(log, xoe.PeerLostError("gone"))], None, [], Completer("test"), sequence, device=device)
        try:
            failed.wait()
        except xoe.PeerLostError:
            pass
        else:
            raise AssertionError("nothing was raised")
    finally:
        torch.cuda.current_stream = real
    assert not gpu.waits_in_stream([Ordered(log)], [torch.ones(1)])


def test_a_completer_waits_in_a_stream_of_its_own():
    """In the default one, backward's kernels would wait for the bucket."""
    import contextlib
    import threading

    from xoe.torch.distributed.completer import Completer
    from xoe.torch.distributed.work import Work

    current, log, told = ["default"], [], threading.Event()

    @contextlib.contextmanager
    def enter(stream):
        current.append(stream)
        yield
        current.pop()

    real = torch.cuda.current_stream, torch.cuda.stream, gpu._make_stream
    torch.cuda.current_stream = lambda device: types.SimpleNamespace(cuda_stream=current[-1])
    torch.cuda.stream, gpu._make_stream = enter, lambda device: f"side of {device}"
    try:
        completer = Completer("test")
        work = Work(
            [Ordered(log)], None, [], completer, types.SimpleNamespace(add_work=lambda: 0), device=torch.device("cuda", 0)
        )
        work.call_back = lambda: (log.append(current[-1]), told.set())
        completer.put(work)
        assert told.wait(60)
        completer.stop()
    finally:
        torch.cuda.current_stream, torch.cuda.stream, gpu._make_stream = real
        gpu._streams.clear()
    assert log == ["side of cuda:0"] * 2, log


def test_nothing_else_waits_in_streams():
    log = []
    assert not gpu.waits_in_stream([Ordered(log)], [torch.ones(1)])
    assert not gpu.waits_in_stream([], [])


def test_the_wish_is_obeyed():
    """XOE_GPU is read when the engine starts; it had no GPU to look for until now."""
    refusal = world.current().engine.gpu_refusal()
    if not torch.cuda.is_available():
        assert refusal.startswith("GPU memory is not taken: "), refusal
        assert not world.current().takes_gpu()
        with_gpu(None)
        os.environ["XOE_GPU"] = "nccl"
        try:
            world.current().takes_gpu()
        except xoe.UnsupportedError as error:
            assert str(error).startswith("XOE_GPU=nccl: GPU memory is not taken: "), error
        else:
            raise AssertionError("it was taken")
    for wish, expected in (("host", "GPU memory is not taken: XOE_GPU=host"), ("gpu", "expected auto, nccl, staged, host")):
        hvd.shutdown()
        os.environ["XOE_GPU"] = wish
        hvd.init()
        try:
            said = world.current().engine.gpu_refusal()
        except xoe.InvalidArgumentError as error:
            said = str(error)
        assert expected in said, said
    os.environ["XOE_GPU"] = "auto"
    hvd.shutdown()
    hvd.init()


def gather(allocate):
    rows = torch.full((RANK + 1, 2), float(RANK))
    request = _core.Request(_core.KINDS["allgather"])
    tensors = [(rows.data_ptr(), 0, rows.shape, _core.DTYPES["float32"])]
    return world.current().engine.submit("rows", tensors, request, None, rows, None, allocate)


def test_results_in_memory_of_the_callers():
    made = []

    def allocate(index, shape, dtype):
        assert index == 0 and dtype == _core.DTYPES["float32"], (index, dtype)
        made.append(torch.empty(shape))
        return made[-1].data_ptr()

    gather(allocate).wait()
    expected = torch.cat([torch.full((rank + 1, 2), float(rank)) for rank in range(SIZE)])
    assert len(made) == 1 and torch.equal(made[0], expected), made


def test_an_allocator_that_fails():
    def allocate(index, shape, dtype):
        raise MemoryError("none left")

    try:
        gather(allocate if RANK == 0 else lambda *_: kept.append(torch.empty(100, 2)) or kept[-1].data_ptr()).wait()
    except xoe.ResourceExhaustedError as error:
        assert RANK == 0 and "gave no memory" in str(error), error
    else:
        assert RANK != 0, "nothing was raised"
    hvd.barrier()


kept = []

ranks.call_tests(globals())
