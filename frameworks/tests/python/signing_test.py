"""Objects that were changed between the ranks are not loaded: loading a pickle runs what it says."""

import contextlib
import os
import pickle
import tempfile

import ranks

ranks.start(__file__, sizes=(2,))

import xoe
from xoe import initialize, world
from xoe.errors import XoeError
from xoe.objects import allgather_object, broadcast_object

xoe.init()
ENGINE = world.current().engine
TRAP = os.path.join(tempfile.gettempdir(), f"xoe-signing-{os.environ['XOE_JOB']}")


class Trap:
    """Its pickle makes a file when it is loaded."""

    def __reduce__(self):
        return (open, (TRAP, "w"))


class Network:
    """The engine of rank 0 behind a network that changes what it sends."""

    def __init__(self, change):
        self._change = change
        self.sent = []

    def __enter__(self):
        if xoe.rank() == 0:
            world.current().engine = self
        return self

    def __exit__(self, *_):
        world.current().engine = ENGINE

    def submit(self, name, tensors, request, splits=None, keep=None, **more):
        del tensors
        keep = self._change(keep)
        self.sent.append(keep)
        return ENGINE.submit(name, [xoe._core.tensor_of(keep)], request, splits, keep, **more)


def refused(receive):
    """Whether this rank refuses what it receives from rank 0."""
    try:
        receive()
    except XoeError as error:
        assert "rank 0" in str(error) and "nothing was loaded" in str(error), error
        return True
    return False


def check(change, receive):
    with Network(change):
        was_refused = refused(receive)
    if xoe.rank() == 1:
        assert was_refused
    assert not os.path.exists(TRAP), "what the network sent was executed"
    assert broadcast_object("still in step", 0) == "still in step"


def flip(data):
    return data[:-1] + bytes([data[-1] ^ 1])


def test_a_pickle_of_another_program():
    for change in (lambda _: pickle.dumps(Trap()), lambda data: data[:32] + pickle.dumps(Trap()), flip, lambda _: b"short"):
        check(change, lambda: broadcast_object({"lr": 0.1}, 0, name="state"))
        check(change, lambda: allgather_object({"lr": 0.1}, name="states"))
        check(change, lambda: broadcast_object({"lr": 0.1}, 0))


def test_an_object_of_another_call():
    with Network(lambda data: data) as network:
        broadcast_object("once", 0, name="a")
        allgather_object("once", name="b")
    broadcast, gathered = network.sent if network.sent else (b"", b"")
    check(lambda _: broadcast, lambda: broadcast_object("again", 0, name="a"))
    check(lambda _: broadcast, lambda: broadcast_object("other name", 0, name="c"))
    check(lambda _: gathered, lambda: broadcast_object("other kind", 0, name="b"))
    alone = xoe.add_process_set([1, 0])
    check(lambda _: broadcast, lambda: broadcast_object("other ranks", 0, name="a", process_set=alone))


def test_an_object_of_an_earlier_world():
    global ENGINE
    with Network(lambda data: data) as network:
        broadcast_object("once", 0, name="first")
    before = network.sent[0] if network.sent else b""
    initialize.re_form()
    ENGINE = world.current().engine
    check(lambda _: before, lambda: broadcast_object("again", 0, name="first"))


def test_a_call_that_was_refused_does_not_count():
    def refuse(_):
        raise ValueError("refused")

    if xoe.rank() == 0:
        with Network(refuse), contextlib.suppress(ValueError):
            broadcast_object(1, 0, name="counted")
    assert broadcast_object(2, 0, name="counted") == 2


def test_objects_of_all_sizes():
    for size in (0, 1, 31, 32, 100_000):
        assert broadcast_object(b"x" * size, 1) == b"x" * size
        assert allgather_object(b"y" * (size * xoe.rank())) == [b"", b"y" * size]


ranks.call_tests(globals())
