"""Tensors of CUDA devices, one GPU a rank, on as many ranks as there are GPUs (at most 4); skipped without one."""

import ranks

ranks.start(__file__, sizes=[size for size in (1, 2, 4) if size <= ranks.gpus()])

import torch

import xoe.torch as hvd
from xoe import world
from xoe.torch import gpu

hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()
DEVICE = torch.device("cuda", hvd.local_rank())
torch.cuda.set_device(DEVICE)
TYPES = (torch.uint8, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64)


def full(shape, value, dtype=torch.float32):
    return torch.full(shape, value, dtype=dtype, device=DEVICE)


def test_they_stay_on_the_gpu():
    assert world.current().takes_gpu(), world.current().engine.gpu_refusal()
    assert gpu.choose_device([full((1,), 0)], "average") == "cuda"


def test_reductions():
    for dtype in TYPES:
        total = SIZE * (SIZE + 1) // 2
        assert torch.equal(hvd.allreduce(full((5, 3), RANK + 1, dtype), op=hvd.Sum), full((5, 3), total, dtype))
        assert torch.equal(hvd.allreduce(full((7,), RANK + 1, dtype), op=hvd.Max), full((7,), SIZE, dtype))
        mean = hvd.allreduce(full((4,), 2 * RANK, dtype), op=hvd.Average)
        assert torch.equal(mean, full((4,), SIZE - 1, dtype)), (dtype, mean)
    scaled = hvd.allreduce(full((4,), 1.0), op=hvd.Sum, prescale_factor=0.5, postscale_factor=3.0)
    assert torch.equal(scaled, full((4,), 1.5 * SIZE))
    tensor = full((3,), RANK + 1.0)
    assert hvd.allreduce_(tensor, op=hvd.Sum) is tensor and tensor.device == DEVICE
    complex_sum = hvd.allreduce(full((3,), 1 + 2j, torch.complex64), op=hvd.Sum)
    assert torch.equal(complex_sum, full((3,), SIZE * (1 + 2j), torch.complex64))
    short = hvd.allreduce(full((3,), 2, torch.int16), op=hvd.Sum)  # through host memory
    assert torch.equal(short, full((3,), 2 * SIZE, torch.int16))


def test_moves():
    gathered = hvd.allgather(full((RANK + 1, 2), float(RANK)))
    assert torch.equal(gathered, torch.cat([full((rank + 1, 2), float(rank)) for rank in range(SIZE)]))
    assert torch.equal(hvd.broadcast(full((5,), float(RANK)), root_rank=SIZE - 1), full((5,), SIZE - 1.0))
    received = hvd.alltoall(full((2 * SIZE,), float(RANK)))
    assert torch.equal(received, torch.cat([full((2,), float(rank)) for rank in range(SIZE)]))
    part = hvd.reducescatter(full((2 * SIZE, 3), 1.0), op=hvd.Sum)
    assert torch.equal(part, full((2, 3), float(SIZE)))
    both = hvd.grouped_allreduce([full((2,), 1.0), full((100_000,), 2.0)], op=hvd.Sum)
    assert torch.equal(both[0], full((2,), float(SIZE))) and torch.equal(both[1], full((100_000,), 2.0 * SIZE))


def test_streams():
    """What a stream has not made yet is waited for, and results are there for any stream."""
    side = torch.cuda.Stream()
    for _ in range(20):
        with torch.cuda.stream(side):
            slow = full((2000, 2000), 1.0)
            for _ in range(10):
                slow = slow @ slow / 2000
            handle = hvd.allreduce_async_(slow, op=hvd.Sum)
        result = hvd.synchronize(handle)
        assert torch.equal(result, full((2000, 2000), float(SIZE)))


def train(distribute, device):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(10, 50), torch.nn.ReLU(), torch.nn.Linear(50, 3)).to(device)
    optimizer = distribute(model)
    for step in range(10):
        torch.manual_seed(1000 * step + RANK)
        inputs, labels = torch.randn(8, 10).to(device), torch.randint(3, (8,)).to(device)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
    return [parameter.detach().cpu() for parameter in model.parameters()]


def test_training_equals_that_of_the_host():
    def distributed(model):
        return hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())

    for ours, host in zip(train(distributed, DEVICE), train(distributed, "cpu"), strict=True):
        torch.testing.assert_close(ours, host, rtol=1e-4, atol=1e-5)


ranks.call_tests(globals())
