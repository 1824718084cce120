"""xoe.torch.LogicalShards: the weights are those of a sum along the tree of shards, to the bit, whatever the number of ranks."""

import functools
import hashlib
import random
import subprocess
import warnings

import ranks

ranks.start(__file__, sizes=(1, 2, 3, 4))

import torch
from torch.nn import functional

import xoe.torch as hvd
from xoe.errors import InvalidArgumentError, UnsupportedError
from xoe.torch.data import ImageDataset

hvd.init()
torch.set_num_threads(1)
RANK, SIZE = hvd.rank(), hvd.size()
CLASSES, BATCH = 3, 2


def network():
    torch.manual_seed(1)
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3),
        torch.nn.BatchNorm2d(4),
        torch.nn.ReLU(),
        torch.nn.Dropout(0.3),
        torch.nn.Flatten(),
        torch.nn.Linear(4 * 36, CLASSES),
    ).to(memory_format=torch.channels_last)


def optimizer_of(model):
    return torch.optim.AdamW(model.parameters(), 0.01)


def batch_of(number, shard):
    generator = torch.Generator().manual_seed(1000 * number + shard)
    return torch.randn(BATCH, 3, 8, 8, generator=generator), torch.randint(CLASSES, (BATCH,), generator=generator)


def values_of(model, optimizer=None):
    """All that a step leaves, as bits."""
    tensors = list(model.state_dict().values())
    for state in optimizer.state.values() if optimizer else ():
        tensors += map(torch.as_tensor, state.values())
    return [
        tensor.detach().clone().contiguous().view(torch.uint8).tolist() if tensor.dim() else tensor.item() for tensor in tensors
    ]


def tree_sum(parts):
    """Halves are powers of two; written apart from the library."""
    if len(parts) == 1:
        return parts[0]
    left = 1
    while 2 * left < len(parts):
        left *= 2
    return [a + b for a, b in zip(tree_sum(parts[:left]), tree_sum(parts[left:]), strict=True)]


def sum_one_by_one(parts):
    return functools.reduce(lambda one, other: [a + b for a, b in zip(one, other, strict=True)], parts)


def reference(shards, steps, sum_of=tree_sum):
    """What one process computes without Xoe."""
    model = network()
    optimizer = optimizer_of(model)
    losses = []
    for number in range(steps):
        buffers = {name: value.clone() for name, value in model.named_buffers()}
        parts = []
        for shard in range(shards):
            for name, value in model.named_buffers():
                value.copy_(buffers[name])
            key = hashlib.blake2b(f"7 {number} {shard}".encode(), digest_size=8)
            torch.manual_seed(int.from_bytes(key.digest(), "little") >> 1)
            images, labels = batch_of(number, shard)
            loss = functional.cross_entropy(model(images), labels)
            gradients = torch.autograd.grad(loss, list(model.parameters()))
            changes = [value - buffers[name] for name, value in model.named_buffers() if value.is_floating_point()]
            parts.append([*gradients, *changes, loss.detach()])
        means = [value * torch.tensor(1 / shards) for value in sum_of(parts)]
        for p in model.parameters():
            p.grad = means.pop(0)
        for name, value in model.named_buffers():
            if value.is_floating_point():
                value.copy_(buffers[name] + means.pop(0))
        losses.append(means.pop(0).item())
        optimizer.step()
    return values_of(model, optimizer), losses


def train(shards, steps, model=None, before_step=None):
    model = model or network()
    optimizer = optimizer_of(model)
    logical = hvd.LogicalShards(model, optimizer, shards, seed=7)
    losses = []
    for number in range(steps):
        with logical.step(number) as step:
            for shard in step.shards():
                images, labels = batch_of(number, shard)
                step.backward(functional.cross_entropy(model(images), labels))
            if before_step is not None:
                before_step(step, model)
        losses.append(step.loss)
    return values_of(model, optimizer), losses


def test_the_weights_are_those_of_the_tree():
    for shards in (4, 5, 8):
        assert train(shards, 3) == reference(shards, 3), shards


def test_the_order_shows():
    """Or else the test above could find nothing."""
    for shards in (4, 5, 8):
        assert reference(shards, 3)[0] != reference(shards, 3, sum_one_by_one)[0]


def test_gradients_can_be_clipped():
    norms = []

    def clip(step, model):
        step.reduce()
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), 1e-3).item())
        assert step.loss > 0
        torch.testing.assert_close(torch.nn.utils.get_total_norm([p.grad for p in model.parameters()]).item(), 1e-3)

    clipped, _ = train(4, 2, before_step=clip)
    assert clipped != reference(4, 2)[0] and len(norms) == 2
    assert len({str(one) for one in hvd.allgather_object((clipped, norms))}) == 1


def test_a_block_that_raises_leaves_no_trace():
    model = network()
    optimizer = optimizer_of(model)
    logical = hvd.LogicalShards(model, optimizer, 5, seed=7)
    before = values_of(model), torch.get_rng_state().tolist(), random.getstate()
    try:
        with logical.step(0) as step:
            for shard in step.shards():
                images, labels = batch_of(0, shard)
                step.backward(functional.cross_entropy(model(images), labels))
                raise KeyError("the test's")
    except KeyError:
        pass
    assert (values_of(model), torch.get_rng_state().tolist(), random.getstate()) == before
    assert all(p.grad is None for p in model.parameters())
    assert train(5, 2, model) == reference(5, 2)


def test_random_numbers_around_a_step_go_on():
    torch.manual_seed(5)
    random.seed(5)
    model = network()
    logical = hvd.LogicalShards(model, optimizer_of(model), 4)
    expected, drawn = torch.rand(1, generator=torch.default_generator.clone_state()), []
    with logical.step(0) as step:
        for _ in step.shards():
            drawn.append((torch.rand(1).item(), random.random(), step.seed))
            step.backward(model(torch.randn(BATCH, 3, 8, 8)).sum())
    assert torch.rand(1) == expected
    everything = [one for rank in hvd.allgather_object(drawn) for one in rank]
    assert len({seed for *_, seed in everything}) == len({number for number, *_ in everything}) == 4


def test_shards_and_positions():
    model = network()
    logical = hvd.LogicalShards(model, optimizer_of(model), 7)
    everything = [shard for rank in hvd.allgather_object(list(logical.mine)) for shard in rank]
    assert everything == list(range(7))
    places = [place for step in range(3) for shard in range(7) for place in logical.positions(step, shard, 5)]
    assert places == list(range(3 * 7 * 5))


def test_a_parameter_without_a_gradient_counts_as_zero():
    used, unused = torch.nn.Parameter(torch.ones(3)), torch.nn.Parameter(torch.ones(3))
    model = torch.nn.ParameterList([used, unused])
    logical = hvd.LogicalShards(model, torch.optim.SGD(model.parameters(), 1.0), 4)
    with logical.step(0) as step:
        for shard in step.shards():
            step.backward((used * shard).sum())
    assert used.tolist() == [-0.5] * 3 and unused.tolist() == [1] * 3
    assert step.loss == 3 * 1.5


def images_of(folder, place, **options):
    dataset = ImageDataset(
        folder, BATCH, image_size=8, training=True, seed=3, threads=0, shards=5, mixup_alpha=0.4, classes=CLASSES, **options
    )
    found = []
    for _, (images, targets) in zip(range(3), dataset, strict=False):
        found.append((images.clone(), targets.clone(), list(dataset.batch.records.tolist())))
    dataset.images.close()
    return found


def test_images_of_shards_do_not_depend_on_ranks():
    folder = ranks.folder_for_all(RANK, lambda one: hvd.broadcast_object(one, 0), hvd.barrier)
    if RANK == 0:
        sizes = ["--images", "41", "--classes", str(CLASSES), "--size-min", "16", "--size-max", "16"]
        subprocess.run([ranks.BUILD / "bin" / "xoe", "data", "make", *sizes, f"{folder}/data"], check=True, capture_output=True)
    hvd.barrier()
    mine = images_of(f"{folder}/data", RANK)
    alone = images_of(f"{folder}/data", 0, rank=0, size=1)
    for step, (images, targets, records) in enumerate(alone):
        parts = hvd.allgather_object(mine[step])
        assert torch.equal(torch.cat([part[0] for part in parts]), images)
        assert torch.equal(torch.cat([part[1] for part in parts]), targets)
        assert [record for part in parts for record in part[2]] == records
    model = network()
    logical = hvd.LogicalShards(model, optimizer_of(model), 5)
    with logical.step(0) as step:
        seen = []
        for shard, images, targets in step.split(*mine[0][:2]):
            assert torch.equal(images, alone[0][0][BATCH * shard : BATCH * (shard + 1)]) and images.is_contiguous()
            step.backward(functional.cross_entropy(model(images), targets))
            seen.append(shard)
    assert seen == list(logical.mine)


def raises(kind, said, call):
    try:
        call()
    except kind as error:
        assert said in str(error), error
    else:
        raise AssertionError(f"no {kind.__name__}: {said}")


def one_step(logical, body):
    with logical.step(0) as step:
        body(step)


def test_wrong_use_is_refused():
    model = network()
    optimizer = optimizer_of(model)
    raises(
        InvalidArgumentError,
        "takes the plain optimizer",
        lambda: hvd.LogicalShards(model, hvd.DistributedOptimizer(optimizer_of(model)), 4),
    )
    raises(InvalidArgumentError, "shards is 0", lambda: hvd.LogicalShards(model, optimizer, 0))
    if SIZE > 1:
        raises(InvalidArgumentError, f"{SIZE} ranks share 1 logical shard", lambda: hvd.LogicalShards(model, optimizer, 1).mine)
    double = network().double()
    raises(
        UnsupportedError, "0.weight is torch.float64 on cpu", lambda: hvd.LogicalShards(double, optimizer_of(double), 4).mine
    )
    logical = hvd.LogicalShards(model, optimizer, 4)

    def loss():
        return model(torch.randn(BATCH, 3, 8, 8)).sum()

    raises(RuntimeError, "called once for each shard", lambda: one_step(logical, lambda step: step.backward(loss())))
    raises(RuntimeError, "has not been called for shard", lambda: one_step(logical, lambda step: list(step.shards())))

    def twice(step):
        for _ in step.shards():
            step.backward(loss())
            step.backward(loss())

    raises(RuntimeError, "called once for each shard", lambda: one_step(logical, twice))
    raises(InvalidArgumentError, "has not been added", lambda: one_step(logical, lambda step: None))


def test_ranks_with_other_numbers_of_threads_are_told():
    if SIZE == 1:
        return
    model = network()
    torch.set_num_threads(2 if RANK == 1 else 1)
    try:
        logical = hvd.LogicalShards(model, optimizer_of(model), 4)
        raises(InvalidArgumentError, "rank 1 computes with 2 threads, rank 0 with 1", lambda: logical.mine)
    finally:
        torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(logical.mine) >= 1


ranks.call_tests(globals())
