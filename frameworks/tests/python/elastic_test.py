"""Training that goes on after its group of ranks broke: no step is lost or done twice, and state is that of the last commit."""

import os

import ranks

ranks.start(__file__, sizes=(1, 2, 3))

import torch

import xoe.torch as hvd

# A step that some ranks do not take fails after this long.
os.environ["XOE_STALL_LIMIT"] = "5"
hvd.init(process_sets=[hvd.ProcessSet([0])])
RANK, SIZE = hvd.rank(), hvd.size()


def network():
    torch.manual_seed(0)
    return torch.nn.Linear(4, 2)


def gradient_step(model, optimizer, number):
    optimizer.zero_grad()
    model(torch.full((1, 4), float(number + RANK))).sum().backward()
    optimizer.step()


def straight(steps):
    """The parameters after so many steps without a failure."""
    model = network()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9), model.named_parameters())
    for number in range(steps):
        gradient_step(model, optimizer, number)
    return model


def test_it_goes_on_from_the_last_commit():
    wanted = straight(10)
    model = network()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9), model.named_parameters())
    calls, resets = [], []

    @hvd.elastic.run
    def train(state):
        calls.append(state.step)
        while state.step < 10:
            gradient_step(state.model, state.optimizer, state.step)
            state.step += 1
            state.commit()
            if state.step == 4 and len(calls) == 1:
                assert all(gradient.in_bucket == (SIZE > 1) for gradient in state.optimizer._gradients)
                # Steps that are not committed: they are undone.
                gradient_step(state.model, state.optimizer, 100)
                state.step = 77
                if SIZE == 1:
                    raise hvd.HorovodInternalError("as if a connection was cut")
                # The ranks wait for each other in vain, until the limit.
                hvd.allreduce(torch.ones(1), name=f"only on rank {RANK}")
        return "done"

    state = hvd.elastic.TorchState(model=model, optimizer=optimizer, step=0)
    state.register_reset_callbacks([lambda: resets.append(hvd.size())])
    assert train(state) == "done"
    assert calls == [0, 4] and resets == [SIZE], (calls, resets)
    # The buckets are laid out again, among the ranks of the new world.
    assert all(gradient.in_bucket == (SIZE > 1) for gradient in optimizer._gradients)
    for p, q in zip(model.parameters(), wanted.parameters(), strict=True):
        torch.testing.assert_close(p, q)


def test_state_becomes_that_of_rank_0():
    model = torch.nn.Linear(2, 2)
    state = hvd.elastic.TorchState(model=model, numbers=[RANK], name=f"rank {RANK}")
    state.sync()
    assert state.numbers == [0] and state.name == "rank 0"
    weights = hvd.allgather_object(model.weight.tolist())
    assert all(one == weights[0] for one in weights)
    state.numbers.append(5)
    state.restore()
    assert state.numbers == [0]  # changed in place, and not committed
    plain = hvd.elastic.ObjectState(a=RANK)
    plain.sync()
    assert plain.a == 0


def test_the_sampler_deals_what_is_left():
    sampler = hvd.elastic.ElasticSampler(range(23), shuffle=True, seed=3)
    first = list(sampler)
    assert len(first) == len(sampler) == -(-23 // SIZE)
    everything = [i for part in hvd.allgather_object(first) for i in part]
    assert set(everything) == set(range(23))
    taken = [i for part in hvd.allgather_object(first[:2]) for i in part]
    sampler.record_batch(0, 2)
    fresh = hvd.elastic.ElasticSampler(range(23), shuffle=True, seed=3)
    fresh.load_state_dict(sampler.state_dict())
    rest = {i for part in hvd.allgather_object(list(fresh)) for i in part}
    assert set(taken) | rest == set(range(23)) and len(rest - set(taken)) == 23 - len(taken)
    sampler.set_epoch(1)
    assert list(sampler) != first or SIZE == 23


ranks.call_tests(globals())
