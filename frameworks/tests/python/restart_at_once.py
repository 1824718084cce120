"""Two ranks of three die, one a while after the other, and are restarted: restart_at_once.py FOLDER SECONDS.

The second one dies SECONDS later, wherever it is then; FOLDER, for all ranks, remembers who has died.
"""

import os
import pathlib
import signal
import sys
import threading
import time

import xoe
from xoe import elastic
from xoe.objects import allgather_object

folder, seconds = sys.argv[1:]
xoe.init()
RANK = xoe.rank()


def dies_now():
    mark = pathlib.Path(folder, str(RANK))
    if mark.exists():
        return False
    mark.touch()
    return True


def die():
    os.kill(os.getpid(), signal.SIGKILL)


@elastic.run
def train(state):
    while state.step < 12:
        if state.step == 5 and RANK > 0 and dies_now():
            threading.Timer(float(seconds) if RANK == 2 else 0, die).start()
        state.total += sum(allgather_object(state.step + RANK, name="step"))
        state.step += 1
        if state.step % 3 == 0:
            state.commit()
        time.sleep(0.1)  # the second one dies before the training has ended


state = elastic.ObjectState(step=0, total=0)
train(state)
print("ended with", state.total, flush=True)
