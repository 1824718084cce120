"""Gradients of gradients (create_graph=True), as gradient penalties need them: those of one process that has the batches of all ranks."""

import ranks

ranks.start(__file__, sizes=(1, 2))

import torch

import xoe
import xoe.torch as hvd

hvd.init()
torch.set_num_threads(1)
RANK, SIZE = hvd.rank(), hvd.size()
ROWS = 6


def own(rows, each=ROWS):
    return rows[each * RANK : each * RANK + each]


def network(norm, dtype, affine=True):
    torch.manual_seed(0)
    layers = [torch.nn.Conv2d(2, 3, 2), norm(3, affine=affine), torch.nn.Tanh(), torch.nn.Flatten(), torch.nn.Linear(27, 2)]
    return torch.nn.Sequential(*layers).to(dtype)


class PlainNorm(torch.nn.BatchNorm2d):
    """Batch norm of which PyTorch knows derivatives of any order."""

    def forward(self, x):
        variance, mean = torch.var_mean(x, (0, 2, 3), unbiased=False, keepdim=True)
        x = (x - mean) / torch.sqrt(variance + self.eps)
        return x * self.weight[:, None, None] + self.bias[:, None, None] if self.affine else x


def penalise(model, x, orders=2):
    """The gradients of a penalty on the slope in each image, or with orders=3 on the slope of the slope."""
    x = x.clone().requires_grad_()
    value = model(x).square().sum()
    for _ in range(orders - 1):
        (slope,) = torch.autograd.grad(value, x, create_graph=True)
        value = (slope.flatten(1).norm(dim=1) - 1).square().sum()
    value.backward()
    return x.grad, {name: p.grad for name, p in model.named_parameters()}


def test_a_gradient_penalty_through_batch_norm():
    for dtype, affine, orders, tolerance in (
        (torch.float64, True, 2, 1e-9),
        (torch.float64, False, 2, 1e-9),
        (torch.float64, True, 3, 1e-8),
        (torch.float32, True, 2, 1e-3),
        (torch.bfloat16, True, 2, 0.1),
    ):
        if orders > 2 and SIZE == 1:  # it is PyTorch's own, which has two
            continue
        torch.manual_seed(1)
        batch = torch.randn(ROWS * SIZE, 2, 4, 4).to(dtype)
        # In bfloat16 PyTorch's batch norm rounds elsewhere.
        exact = torch.float32 if dtype is torch.bfloat16 else dtype
        norm = PlainNorm if orders > 2 else torch.nn.BatchNorm2d
        wanted, wanted_parameters = penalise(network(norm, dtype, affine).to(exact), batch.to(exact), orders)
        found, parameters = penalise(network(hvd.SyncBatchNorm, dtype, affine), own(batch), orders)
        size = max(grad.abs().max().item() for grad in wanted_parameters.values())
        close(found, own(wanted), tolerance, wanted.abs().max().item())
        for name, grad in parameters.items():
            close(hvd.allreduce(grad, op=hvd.Sum, name=f"sum of {name}"), wanted_parameters[name], tolerance, size)


def close(found, wanted, tolerance, size=1.0):
    torch.testing.assert_close(found.double() / size, wanted.double() / size, rtol=tolerance, atol=tolerance)


def test_a_distributed_optimizer_with_a_penalty():
    torch.manual_seed(1)
    batch = torch.randn(ROWS * SIZE, 2, 4, 4, dtype=torch.float64)
    whole, ours = (network(norm, torch.float64) for norm in (torch.nn.BatchNorm2d, hvd.SyncBatchNorm))
    plain = torch.optim.SGD(ours.parameters(), lr=0.01)
    pairs = ((whole, torch.optim.SGD(whole.parameters(), lr=0.01), batch),)
    pairs += ((ours, hvd.DistributedOptimizer(plain, ours.named_parameters(), op=hvd.Sum), own(batch)),)
    for model, optimizer, images in pairs:
        for _ in range(4):
            optimizer.zero_grad()
            penalise(model, images)
            optimizer.step()
    for p, wanted in zip(ours.parameters(), whole.parameters(), strict=True):
        close(p.detach(), wanted.detach(), 1e-8)


# ---- Collectives: with the factors of Horovod's gradients, on which one process then computes as they are.


def scaled(x, factor):
    """x, with a gradient that is multiplied by the factor."""
    return x.detach() + factor * (x - x.detach())


def reduce_rows(parts, op):
    total = torch.stack(parts).sum(0)
    return (total if op is hvd.Sum else total / SIZE).split([3 + (rank == 0) for rank in range(SIZE)])


def shuffle(parts):
    """All ranks' parts of an alltoall in which rank r sends r + 1 rows to each."""
    return [torch.cat([part[rank * (r + 1) : (rank + 1) * (r + 1)] for r, part in enumerate(parts)]) for rank in range(SIZE)]


UNEVEN = [(rank + 2, 2) for rank in range(SIZE)]
FOR_ALL = [((rank + 1) * SIZE, 2) for rank in range(SIZE)]
EVEN = [(3 * SIZE + 1, 2)] * SIZE
# What it is, the shapes of ranks' inputs, the call, what one process computes, and the factor of Horovod's gradient.
COLLECTIVES = (
    ("sum", EVEN, lambda x: hvd.allreduce(x, op=hvd.Sum), lambda xs: [sum(xs)] * SIZE, 1),
    ("average", EVEN, lambda x: hvd.allreduce(x), lambda xs: [sum(xs) / SIZE] * SIZE, 1),
    ("scaled", EVEN, lambda x: hvd.allreduce(x, prescale_factor=3.0), lambda xs: [3 * sum(xs) / SIZE] * SIZE, 1),
    ("group", EVEN, lambda x: sum(hvd.grouped_allreduce([x, x * x], op=hvd.Sum)), lambda xs: [sum(x + x * x for x in xs)] * SIZE, 1),
    ("allgather", UNEVEN, hvd.allgather, lambda xs: [torch.cat(xs)] * SIZE, 1 / SIZE),
    ("broadcast", EVEN, lambda x: hvd.broadcast(x, SIZE - 1), lambda xs: [xs[-1]] * SIZE, 1 / SIZE),
    ("alltoall", FOR_ALL, lambda x: hvd.alltoall(x, [RANK + 1] * SIZE)[0], shuffle, 1),
    ("equal alltoall", [(2 * SIZE, 2)] * SIZE, hvd.alltoall, lambda xs: [torch.cat([x.chunk(SIZE)[r] for x in xs]) for r in range(SIZE)], 1),
    ("scatter of sums", EVEN, lambda x: hvd.reducescatter(x, op=hvd.Sum), lambda xs: reduce_rows(xs, hvd.Sum), SIZE),
    ("scatter of averages", EVEN, lambda x: hvd.reducescatter(x), lambda xs: reduce_rows(xs, hvd.Average), SIZE),
)  # fmt: skip


def slopes(values, inputs, orders):
    """The inputs' gradients after so many derivatives, each of the sum of the former ones' cubes."""
    total = sum((value**3).sum() * (rank + 1) for rank, value in values)
    for _ in range(orders - 1):
        grads = torch.autograd.grad(total, inputs, create_graph=True, materialize_grads=True)
        total = sum((grad**3).sum() for grad in grads)
    return torch.autograd.grad(total, inputs, materialize_grads=True)


def test_collectives():
    for orders in (1, 2, 3):
        for name, shapes, call, alone, factor in COLLECTIVES:
            torch.manual_seed(2)
            inputs = [torch.rand(shape, dtype=torch.float64).add_(0.5).requires_grad_() for shape in shapes]
            wanted = slopes(list(enumerate(alone([scaled(x, factor) for x in inputs]))), inputs, orders)
            mine = inputs[RANK].detach().clone().requires_grad_()
            (found,) = slopes([(RANK, call(mine))], [mine], orders)
            text = f"{name}, derivative {orders}"
            torch.testing.assert_close(found, wanted[RANK], rtol=1e-9, atol=1e-9, msg=lambda why, text=text: f"{text}: {why}")


def test_adasum_has_no_gradient():
    x = torch.ones(3, requires_grad=True)
    try:
        hvd.allreduce(x, op=hvd.Adasum).sum().backward()
    except xoe.UnsupportedError as error:
        assert "allreduce(op=Adasum) has no gradient" in str(error), error
    else:
        raise AssertionError("gradients of a sum")
    assert x.grad is None


def test_evaluation_waits_for_no_other_rank():
    """Also of a layer without running statistics, on one rank alone."""
    if RANK == SIZE - 1:
        x = torch.randn(ROWS, 3, 2, 2, generator=torch.Generator().manual_seed(3))
        layer = hvd.SyncBatchNorm(3, track_running_stats=False).eval()
        torch.testing.assert_close(layer(x), torch.nn.BatchNorm2d(3, track_running_stats=False).eval()(x))


ranks.call_tests(globals())
