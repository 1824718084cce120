"""Training that goes on after its group of ranks broke: no step is lost or done twice, and state is that of the last commit."""

import os

import ranks

ranks.start(__file__, sizes=(1, 2, 3))

import torch

import xoe.elastic
import xoe.torch as hvd
from xoe.torch.elastic import state as handlers

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


class Counter:
    """Not picklable, so only a handler can copy it."""

    def __init__(self, count):
        self.count = count

    def __reduce__(self):
        raise AssertionError("a counter is pickled")


class CounterHandler(handlers.StateHandler):
    """As for Horovod: it copies rank 0's."""

    def __init__(self, value):
        super().__init__(value)
        self.save()

    def save(self):
        self.saved = self.value.count

    def restore(self):
        self.value.count = self.saved

    def sync(self):
        self.value.count = hvd.broadcast_object(self.value.count, root_rank=0)


class AnyRanksCounterHandler(CounterHandler):
    def sync(self, source=0):
        self.value.count = hvd.broadcast_object(self.value.count, root_rank=source)


def state_with(handler, counter):
    known = handlers.get_handler_registry()
    handlers.set_handler_registry([(Counter, handler), *known])
    try:
        return hvd.elastic.TorchState(counter=counter, step=RANK)
    finally:
        handlers.set_handler_registry(known)


def test_a_handler_of_the_programs_own():
    counter = Counter(5 + RANK)
    state = state_with(CounterHandler, counter)
    assert state.model is None and state.optimizer is None and state.counter is counter
    counter.count = 50
    state.restore()
    assert counter.count == 5 + RANK
    state.sync()
    assert (counter.count, state.step) == (5, 0)
    counter.count = 6
    state.commit()
    counter.count = 7
    state.restore()
    assert counter.count == 6
    state.counter = other = Counter(8)  # its value is saved
    other.count = 9
    state.restore()
    assert (other.count, counter.count) == (8, 6)


def test_handlers_where_rank_0_has_just_joined():
    def state_of(handler):
        state = state_with(handler, Counter(5 + RANK))
        state._shared = RANK == SIZE - 1  # all others have just joined
        return state

    state = state_of(AnyRanksCounterHandler)
    state.sync()
    assert (state.counter.count, state.step) == (5 + SIZE - 1, SIZE - 1)
    if SIZE > 1:
        try:
            state_of(CounterHandler).sync()
            raise AssertionError("no error")
        except hvd.XoeError as error:
            assert "'counter'" in str(error) and "CounterHandler.sync()" in str(error), error


def test_a_function_of_the_programs_own_forms_the_world():
    formed = []

    def reset():
        formed.append(RANK)
        hvd.shutdown()
        hvd.init()

    def train(state):
        if not formed:
            raise hvd.HorovodInternalError("as if a connection was cut")
        return state.step

    state = xoe.elastic.ObjectState(hvd.broadcast_object, hvd.rank, step=3)
    assert xoe.elastic.run_fn(train, reset)(state) == 3
    assert formed == [RANK] and state._rank() == RANK and state._bcast_object("all") == "all"


ranks.call_tests(globals())
