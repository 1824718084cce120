"""Elastic jobs as programs start and steer them: xoe.run() of a function whose ranks come and go, and State.on_hosts_updated()."""

import contextlib
import io

import ranks

ranks.start(__file__, sizes=(1,))

import xoe


def train(killed, told):
    """Counts steps; the rank in the slot ``killed`` dies at step 3, the one in ``told`` asks for another world at step 5."""
    import os
    import signal
    import time

    import torch

    import xoe.torch as hvd

    torch.set_num_threads(1)
    hvd.init()
    slot, worlds = int(os.environ["XOE_RANK"]), []

    @hvd.elastic.run
    def steps(state):
        worlds.append((state.step, hvd.size()))
        while state.step < 8:
            if (slot, state.step) == (killed, 3):
                os.kill(os.getpid(), signal.SIGKILL)
            if (slot, state.step, state.told) == (told, 5, False):
                assert state._host_messages.empty()
                state.on_hosts_updated(time.time(), 1)
                assert not state._host_messages.empty()
            state.told = state.told or state.step == 5
            state.total += float(hvd.allreduce(torch.ones(1), op=hvd.Sum))
            state.step += 1
            state.commit()
        return hvd.rank(), state.total, worlds

    return steps(hvd.elastic.ObjectState(step=0, total=0.0, told=False))


def results(*arguments, **options):
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        found = xoe.run(train, arguments, initialize=False, **options)
    return found, said.getvalue()


def test_survivors_give_the_results():
    for killed in (0, 1):
        found, said = results(killed, -1, num_proc=3, min_num_proc=2)
        assert found == [(rank, 3 * 3.0 + 5 * 2.0, [(0, 3), (3, 2)]) for rank in range(2)], found
        assert f"rank {killed} " in said and "2 ranks go on" in said, said


def test_a_program_asks_for_another_world():
    found, _ = results(-1, 1, num_proc=2, min_num_proc=1)
    assert found == [(rank, 8 * 2.0, [(0, 2), (6, 2)]) for rank in range(2)], found


def test_large_arguments_are_refused():
    try:
        xoe.run(train, (bytes(2 << 20), -1), num_proc=2, min_num_proc=1)
        raise AssertionError("no error")
    except xoe.XoeError as error:
        assert "from a file" in str(error), error


def test_too_few_are_left():
    try:
        results(0, -1, num_proc=2, min_num_proc=2)
        raise AssertionError("no error")
    except xoe.XoeError as error:
        assert "137" in str(error) and "rank 0" in str(error), error


ranks.call_tests(globals())
