"""torch.compile of a DDP model on the backend "xoe", and of a function with collectives, gives what it gives without."""

import warnings

import ranks

ranks.start(__file__, sizes=(2,))

import torch
import torch.distributed as dist
from torch.distributed import _functional_collectives as functional
from torch.nn.parallel import DistributedDataParallel

import xoe.torch.distributed

warnings.filterwarnings("ignore")
torch.set_num_threads(1)
dist.init_process_group("xoe")
assert isinstance(dist.group.WORLD, xoe.torch.distributed.Group)
RANK, SIZE = dist.get_rank(), dist.get_world_size()


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(7)
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.Tanh(), torch.nn.Linear(16, 16), torch.nn.Linear(16, 2)
        )

    def forward(self, inputs):
        return self.layers(inputs)


def train(compile_with, hook=None):
    model = DistributedDataParallel(Network())
    if hook is not None:
        model.register_comm_hook(None, hook)
    called = torch.compile(model, backend=compile_with) if compile_with else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(5):
        inputs = torch.randn(8 * SIZE, 8, generator=torch.Generator().manual_seed(step))[RANK::SIZE]
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(called(inputs), inputs[:, :2].sin()).backward()
        optimizer.step()
    return [parameter.detach() for parameter in model.parameters()]


def close(one, other):
    for a, b in zip(one, other, strict=True):
        assert torch.allclose(a, b, atol=1e-5), f"rank {RANK}: differs by {(a - b).abs().max().item()}"


EAGER = train(None)


def test_ddp():
    for compile_with in ("eager", "aot_eager", "inductor"):
        torch._dynamo.reset()
        close(train(compile_with), EAGER)


def test_ddp_with_the_hook():
    torch._dynamo.reset()
    close(train("aot_eager", xoe.torch.distributed.allreduce_hook), EAGER)


def test_collectives():
    def compute(tensor):
        tensor = functional.all_reduce(tensor * 2, "sum", dist.group.WORLD)
        return functional.all_gather_tensor(tensor + 1, 0, dist.group.WORLD)

    torch._dynamo.reset()
    tensor = torch.full((2, 3), float(RANK))
    close([torch.compile(compute, backend="aot_eager")(tensor)], [compute(tensor)])


def test_collectives_that_change_tensors():
    def compute(tensor):
        tensor = tensor * 2
        dist.all_reduce(tensor)
        work = dist.all_reduce(tensor, async_op=True)
        work.wait()
        return tensor + 1

    torch._dynamo.reset()
    tensor = torch.full((2, 3), float(RANK))
    close([torch.compile(compute, backend="eager")(tensor)], [compute(tensor)])


ranks.call_tests(globals())
dist.barrier()
dist.destroy_process_group()
