"""hvd.shutdown() while other threads use the engine."""

import contextlib
import re
import sys
import threading

import ranks

ranks.start(__file__, sizes=(1, 2))

import torch

import xoe
import xoe.torch as hvd

THREADS = 4


def keep_submitting(started, stop, ended):
    """Submits until it is told to stop; errors of a world that has ended are expected, others are kept."""
    x = torch.ones(4)
    count = 0
    while not stop.is_set():
        count += 1
        try:
            hvd.allreduce_async_(x, name=f"{threading.get_ident()}.{count % 50}")
            xoe.metrics()
        except xoe.HorovodInternalError:
            pass
        except xoe.InvalidArgumentError as error:
            if "in flight" not in str(error) and "has not been added" not in str(error):
                ended.append(error)
        if count == 20:
            started.release()


def test_threads_that_submit():
    """The last call that uses the engine frees it."""
    turns = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    for _ in range(20):
        hvd.init()
        started, stop, ended = threading.Semaphore(0), threading.Event(), []
        threads = [threading.Thread(target=keep_submitting, args=(started, stop, ended)) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        for _ in threads:
            started.acquire()
        hvd.shutdown()
        stop.set()
        for thread in threads:
            thread.join()
        assert not ended, ended
    sys.setswitchinterval(turns)


def test_a_thread_that_waits():
    """A call that other ranks have not joined yet ends with the engine."""
    hvd.init()
    if hvd.size() == 1:
        hvd.shutdown()
        return
    told = []

    def wait():
        try:
            hvd.add_process_set([0, 1])
        except xoe.HorovodInternalError as error:
            told.append(error)

    if hvd.rank() == 0:
        thread = threading.Thread(target=wait)
        thread.start()
        while not re.search(r"^xoe_queue_depth\S* [1-9]", xoe.metrics(), re.MULTILINE):
            pass
        hvd.shutdown()
        thread.join()
        assert len(told) == 1, told
    else:
        with contextlib.suppress(xoe.HorovodInternalError):
            hvd.barrier()  # until rank 0 leaves
        hvd.shutdown()


ranks.call_tests(globals())
