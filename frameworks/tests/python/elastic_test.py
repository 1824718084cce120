"""Training that goes on after its group of ranks broke: no step is lost or done twice, and state is that of the last commit."""

import os
import pathlib
import subprocess

import ranks

ranks.start(__file__, sizes=(1, 2, 3))

import torch

import xoe.elastic
import xoe.torch as hvd
from xoe.errors import InvalidArgumentError
from xoe.records import RecordBatches
from xoe.torch.data import ImageDataset
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


def make_data(folder):
    """60 records, which are images."""
    if RANK == 0:
        make = [str(ranks.BUILD / "bin" / "xoe-data"), "make", "--images", "60", "--classes", "3", "--shards", "2", folder]
        subprocess.run(make, check=True, stdout=subprocess.DEVNULL)
    hvd.barrier()
    return pathlib.Path(folder)


DATA = make_data(ranks.folder_for_all(RANK, lambda made: hvd.broadcast_object(made, 0), hvd.barrier))


def raises(words, call):
    try:
        call()
    except InvalidArgumentError as error:
        assert words in str(error), error
    else:
        raise AssertionError("no error")


def images_of(ledger=None):
    return ImageDataset(DATA, 2, image_size=8, training=True, remainder="keep", seed=7, threads=1, ledger=ledger)


def test_batches_that_were_not_recorded_come_again():
    ledger = hvd.elastic.Ledger(DATA / "ledger")
    images = images_of(ledger)
    state = hvd.elastic.TorchState(images=images, ledger=ledger)
    loop, taken = iter(images), []
    for _ in range(4):
        next(loop)
        taken.append(images.batch.records.tolist())
    raises("record_batch() is to be called after each step", state.commit)
    images.record_batch(2)
    state.commit()
    images.record_batch()  # not committed
    state.restore()
    assert not list(loop), "a loop of before the restore is over"
    again = []
    for _ in images:
        again.append(images.batch.records.tolist())
    assert again[:2] == taken[2:] and images.epoch == 0, (again[:2], taken)
    images.record_batch(len(again))
    assert images.epoch == 1
    raises("every batch that was handed out is recorded", images.record_batch)
    everywhere = [record for part in hvd.allgather_object(taken[:2] + again) for batch in part for record in batch]
    assert sorted(everywhere) == list(range(60)), sorted(everywhere)


def test_without_a_ledger_batches_count_when_they_are_handed_out():
    images = images_of()
    state = hvd.elastic.TorchState(images=images, step=0)
    for state.step, _ in enumerate(images, 1):
        if state.step == 3:
            state.commit()
            break
    next(iter(images))
    state.restore()
    assert len(list(images)) == len(images) - 3 and images.epoch == 1


def test_a_ledger_is_of_one_data_set():
    ledger = hvd.elastic.Ledger(DATA / "other", records=61)
    raises("of 61 records, and the data set has 60", lambda: images_of(ledger))
    raises("nothing told it", lambda: hvd.elastic.Ledger(DATA / "none").step([1]))


def test_plain_records_have_one_order_for_all_ranks():
    def taken(records, batches):
        loop = iter(records)
        return [next(loop) for _ in range(batches)]

    options = {"seed": 3, "shuffle_buffer": 16, "cycle_length": 2}
    records = RecordBatches(DATA / "train-*", 4, **options)
    assert records.records_per_epoch == 60 and len(records) == -(-60 // (4 * SIZE))
    first, second = list(records), list(records)
    assert len(first) == len(records) and first != second
    everything = [record for part in hvd.allgather_object(first) for batch in part for record in batch]
    assert len(everything) == len(set(everything)) == 60
    # A place is that of all ranks, and is of this order alone.
    fresh = RecordBatches(DATA / "train-*", 4, **options)
    assert taken(fresh, 2) == first[:2]
    place = fresh.state_dict()
    assert place["consumed"] == 8 * SIZE and place["epoch"] == 0
    other = RecordBatches(DATA / "train-*", 4, **options)
    other.load_state_dict(place)
    assert list(other) == first[2:] and list(other) == second and other.epoch == 2
    raises("the seed is 4", lambda: RecordBatches(DATA / "train-*", 4, seed=4).load_state_dict(place))
    raises("no option rank", lambda: RecordBatches(DATA / "train-*", 4, rank=0))


ranks.call_tests(globals())
