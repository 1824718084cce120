"""Buckets of DDP on the backend "xoe" that the ranks share: same numbers, memory that ends where it should, ranks that fail."""

import os
import signal
import subprocess
import sys
import warnings

import ranks

KILLED = "--killed"
if KILLED not in sys.argv:
    ranks.start(__file__, sizes=(2, 3))

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import xoe.torch.distributed
from xoe.torch.distributed import shared_storages, work

warnings.filterwarnings("ignore")
torch.set_num_threads(1)
STEPS, WIDTH = 6, 300  # layers of 360 KB: three buckets, of which those of two layers are shared


def network():
    torch.manual_seed(7)
    layers = [layer for _ in range(5) for layer in (torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh())]
    return torch.nn.Sequential(*layers)


def step_of(model, step, rank, size, scale=1.0):
    generator = torch.Generator().manual_seed(step)
    inputs = torch.randn(2 * size, WIDTH, generator=generator)[rank::size]
    (scale * model(inputs).square().mean()).backward()


def mode_of(tensor):
    """How the pages of a tensor are mapped: "rw-s" where other processes may see them; and of which file."""
    address = tensor.untyped_storage().data_ptr()
    with open("/proc/self/maps") as maps:
        for line in maps:
            first, last = (int(end, 16) for end in line.split(maxsplit=1)[0].split("-"))
            if first <= address < last:
                return line.split()[1], (*line.split()[5:], "")[0]
    raise AssertionError("a tensor that is mapped nowhere")


def is_shared(parameter):
    mode, file = mode_of(parameter.grad)
    return mode == "rw-s" and "memfd" in file


if KILLED in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # of the launcher, which ends the others at once
    dist.init_process_group("xoe")
    model = DistributedDataParallel(network(), bucket_cap_mb=1, gradient_as_bucket_view=True)
    rank, size = dist.get_rank(), dist.get_world_size()
    if rank == 1:
        last = list(model.parameters())[3]
        steps = iter(range(int(sys.argv[-1])))
        last.register_hook(lambda _: None if next(steps, None) is not None else os.kill(os.getpid(), signal.SIGKILL))
    try:
        for step in range(50):
            model.zero_grad()
            step_of(model, step, rank, size)
        print("no error")
    except RuntimeError as error:
        # Both who waited in backward, and who has its gradients still.
        gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
        assert not any(mode_of(gradient)[0] == "rw-s" for gradient in gradients)
        assert all(gradient.isfinite().all() for gradient in gradients)
        print("told:", error, flush=True)
        os._exit(7)  # before the launcher ends the job
    os._exit(0)

dist.init_process_group("xoe")
RANK, SIZE = dist.get_rank(), dist.get_world_size()
GLOO = dist.new_group(backend="gloo")


def make(group=None, hooked=False, **options):
    model = DistributedDataParallel(network(), process_group=group, bucket_cap_mb=1, **options)
    if hooked:
        model.register_comm_hook(None, xoe.torch.distributed.allreduce_hook)
    return model


def train(model, accumulate=1, steps=STEPS):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for step in range(steps):
        optimizer.zero_grad()
        for part in range(accumulate - 1):
            with model.no_sync():
                step_of(model, accumulate * step + part, RANK, SIZE)
        step_of(model, accumulate * step + accumulate - 1, RANK, SIZE)
        optimizer.step()
    return torch.cat([parameter.detach().reshape(-1) for parameter in model.parameters()])


def like_gloo(**options):
    ours = train(model := make(**options), options.pop("accumulate", 1))
    options.pop("hooked", None)
    theirs = train(make(GLOO, **options))
    assert torch.allclose(ours, theirs, atol=1e-6), f"rank {RANK}: differs by {(ours - theirs).abs().max().item()}"
    first = ours.clone()
    dist.broadcast(first, 0)
    assert torch.equal(ours, first), f"rank {RANK}: not the bits of rank 0"
    return model


def test_buckets_are_shared():
    for hooked in (False, True):
        model = like_gloo(gradient_as_bucket_view=True, hooked=hooked)
        assert sum(map(is_shared, model.parameters())) >= 8, [mode_of(p.grad) for p in model.parameters()]


def test_gradients_of_their_own():
    model = like_gloo(gradient_as_bucket_view=False)
    assert not any(map(is_shared, model.parameters()))


def test_static_graph_and_unused_parameters():
    like_gloo(gradient_as_bucket_view=True, static_graph=True)
    like_gloo(gradient_as_bucket_view=True, find_unused_parameters=True)


def test_accumulation():
    ours = train(make(gradient_as_bucket_view=True), accumulate=3)
    theirs = train(make(GLOO, gradient_as_bucket_view=True), accumulate=3)
    assert torch.allclose(ours, theirs, atol=1e-6)


def test_memory_of_ended_models_is_given_back():
    def shm():
        room = os.statvfs("/dev/shm")
        return (room.f_blocks - room.f_bfree) * room.f_frsize

    before = shm()
    group = dist.group.WORLD._shared
    for _ in range(3):
        train(make(gradient_as_bucket_view=True), steps=4)
    kept = make(gradient_as_bucket_view=True)
    train(kept)
    # Those that have ended are forgotten when the next ones are shared.
    alive = [shared for shared in group._shared.values() if not shared.storage.expired()]
    # Where PyTorch's C++ does not keep works, the last ones are kept with their tensors.
    most = 4 if work._CPP_KEEPS_WORKS else 8 + work._LAST_FEW
    assert len(group._shared) == len(alive) <= most, group._shared
    dist.barrier()
    assert shm() - before < 1 << 20, f"{shm() - before} bytes more in /dev/shm"


def test_full_shared_memory_is_no_error():
    room = shared_storages._can_move
    shared_storages._can_move = lambda _: RANK != 0 and room(_)
    group = dist.new_group()  # which has shared nothing yet
    try:
        model = make(group, gradient_as_bucket_view=True)
        ours = train(model)
    finally:
        shared_storages._can_move = room
    assert any(map(is_shared, model.parameters())) == (RANK != 0)
    assert torch.equal(ours, train(make(gradient_as_bucket_view=True))), "ranks that differ in where their buckets are"


def test_backward_that_fails():
    model = make(gradient_as_bucket_view=True)
    train(model)
    first = next(model.parameters())  # the last one of backward: buckets are held already
    refuse = first.register_hook(lambda _: 1 / 0)
    try:
        step_of(model, 0, RANK, SIZE)
    except ZeroDivisionError:
        pass
    else:
        raise AssertionError("the hook was not called")
    refuse.remove()
    dist.barrier()
    like_gloo(gradient_as_bucket_view=True)


def test_a_work_that_a_hook_waits_for():
    """Within backward, by functions in Python: it must not be held back to its end."""

    def waits(group, bucket):
        future = xoe.torch.distributed.allreduce_hook(group, bucket)
        return torch.futures.collect_all([future]).then(lambda _: (future.wait(), bucket.buffer())[1])

    def waits_at_once(_, bucket):
        dist.all_reduce(bucket.buffer(), op=dist.ReduceOp.AVG)
        done = torch.futures.Future()
        done.set_result(bucket.buffer())
        return done

    expected = train(make(GLOO))
    for hook in (waits, waits_at_once):
        model = make()
        model.register_comm_hook(None, hook)
        assert torch.allclose(train(model), expected, atol=1e-6)


def test_memory_ends_with_the_group():
    group = dist.new_group()
    model = make(group, gradient_as_bucket_view=True)
    train(model)
    assert any(map(is_shared, model.parameters()))
    before = [parameter.grad.clone() for parameter in model.parameters()]
    dist.barrier()
    dist.destroy_process_group(group)
    group.shutdown()  # which older versions of PyTorch leave out
    assert not any(mode_of(parameter.grad)[0] == "rw-s" for parameter in model.parameters())
    assert all(torch.equal(parameter.grad, one) for parameter, one in zip(model.parameters(), before, strict=True))


def test_killed_ranks():
    if RANK != 0 or SIZE != 2:
        return
    for steps in (0, 1, 2, 5):
        done = subprocess.run(
            ranks.command(2, __file__, KILLED, str(steps), options=ranks.LET_SPEAK),
            env=ranks.environment(),
            capture_output=True,
            text=True,
            timeout=ranks.HANGS,
        )
        told = [line for line in done.stdout.splitlines() if "told:" in line]
        assert len(told) == 1 and told[0].startswith("[0]") and "rank 1" in told[0], done.stdout + done.stderr


ranks.call_tests(globals())
