"""Training on the backend "xoe": DDP, FSDP2 and DTensor give what one process, and what gloo gives."""

import copy
import warnings

import ranks

ranks.start(__file__, sizes=(1, 2, 3))

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from xoe.torch.distributed import allreduce_hook

warnings.filterwarnings("ignore")
torch.set_num_threads(1)
dist.init_process_group("xoe")
RANK, SIZE = dist.get_rank(), dist.get_world_size()
GLOO = dist.new_group(backend="gloo")
STEPS, BATCH = 100, 6


def network():
    torch.manual_seed(7)
    layers = (torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2))
    return torch.nn.Sequential(*layers)


def batch(step):
    generator = torch.Generator().manual_seed(step)
    inputs = torch.randn(BATCH * SIZE, 8, generator=generator)
    return inputs, inputs[:, :2].sin()


def train(model, whole=False, steps=STEPS):
    """Every rank's part of each batch, or all of it."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for step in range(steps):
        inputs, targets = batch(step)
        if not whole:
            inputs, targets = inputs[RANK::SIZE], targets[RANK::SIZE]
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()
    return [parameter.detach() for parameter in model.parameters()]


def close(one, other, most=1e-6):
    for a, b in zip(one, other, strict=True):
        worst = (a - b).abs().max().item()
        assert worst <= most, f"rank {RANK}: differs by {worst}"


ALONE = train(network(), whole=True)


def test_ddp():
    ours = train(DistributedDataParallel(network()))
    close(ours, ALONE)
    close(ours, train(DistributedDataParallel(network(), process_group=GLOO)))


def test_ddp_with_the_hook():
    for options in ({}, {"gradient_as_bucket_view": True, "bucket_cap_mb": 0.0005}):
        model = DistributedDataParallel(network(), **options)
        model.register_comm_hook(None, allreduce_hook)
        close(train(model), ALONE)


def test_ddp_with_pytorchs_hook():
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook as of_pytorch

    model = DistributedDataParallel(network())
    model.register_comm_hook(None, of_pytorch)
    close(train(model), ALONE)


def test_ddp_with_unused_parameters():
    class Partly(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.unused = network(), torch.nn.Linear(2, 2)

        def forward(self, inputs):
            return self.used(inputs)

    model = DistributedDataParallel(Partly(), find_unused_parameters=True)
    train(model)
    close([parameter.detach() for parameter in model.module.used.parameters()], ALONE)


def test_ddp_with_sparse_gradients():
    torch.manual_seed(3)
    table = torch.nn.Embedding(10, 4, sparse=True)
    expected = copy.deepcopy(table)
    model = DistributedDataParallel(table)
    model(torch.tensor([RANK, RANK + 1])).sum().backward()
    sum(expected(torch.tensor([rank, rank + 1])).sum() for rank in range(SIZE)).backward()
    close([table.weight.grad.to_dense()], [expected.weight.grad.to_dense() / SIZE])


def test_join_of_uneven_inputs():
    model = DistributedDataParallel(network())
    with model.join():
        for _ in range(2 + RANK):
            model(torch.ones(1, 8)).sum().backward()


def test_fsdp():
    try:
        from torch.distributed.fsdp import fully_shard
    except ImportError:
        return  # before 2.6
    for reshard in (True, False):
        model = network()
        for layer in model:
            if isinstance(layer, torch.nn.Linear):
                fully_shard(layer, reshard_after_forward=reshard)
        fully_shard(model, reshard_after_forward=reshard)
        close([shard.full_tensor() for shard in train(model)], ALONE)


def test_dtensor():
    try:
        from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
    except ImportError:
        from torch.distributed._tensor import DTensor, Replicate, Shard, distribute_tensor
    from torch.distributed.device_mesh import init_device_mesh

    mesh = init_device_mesh("cpu", (SIZE,))
    torch.manual_seed(1)
    left, right = torch.randn(6, 5), torch.randn(5, 6)
    for placements in ((Shard(0), Replicate()), (Shard(1), Shard(0)), (Replicate(), Shard(1))):
        product = distribute_tensor(left, mesh, placements[:1]) @ distribute_tensor(right, mesh, placements[1:])
        assert isinstance(product, DTensor)
        assert torch.allclose(product.full_tensor(), left @ right, atol=1e-5)
    sharded = distribute_tensor(left, mesh, [Shard(0)])
    close([sharded.redistribute(mesh, [Shard(1)]).full_tensor()], [left])
    close([(sharded * 2).sum().full_tensor()], [left.sum() * 2], 1e-5)


def test_tensor_parallel():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    if 16 % SIZE:
        return
    torch.manual_seed(2)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    inputs = torch.randn(3, 8)
    expected = model(inputs)
    mesh = init_device_mesh("cpu", (SIZE,))
    parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    close([model(inputs).detach()], [expected.detach()], 1e-5)


ranks.call_tests(globals())
dist.barrier()
dist.destroy_process_group()
