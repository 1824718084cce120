"""A rank of :func:`xoe.spark.run`: a process that a task of Spark starts, with what it is to do on standard input."""

from __future__ import annotations

import ctypes
import os
import pickle
import signal
import sys
from typing import Any

import cloudpickle

from xoe import _placement
from xoe._attempt import attempt

_PR_SET_PDEATHSIG = 1


def _call(assignment: dict[str, Any]) -> Any:
    from xoe.initialize import init

    if assignment["join"]:
        init(start_timeout=assignment["start_timeout"])
    function, arguments, options = pickle.loads(assignment["call"])
    return cloudpickle.dumps(function(*arguments, **options))


def main() -> None:
    """Calls the function, and writes its outcome to the file descriptor of the first argument."""
    assignment = pickle.loads(sys.stdin.buffer.read())
    # A rank ends with its task, however that ends.
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != assignment["parent"]:
        raise SystemExit("the task of Spark that started this rank has ended")
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    _placement.set_variables(assignment["variables"])
    sys.path[:] = [*assignment["path"], *(entry for entry in sys.path if entry not in assignment["path"])]
    fine, value = attempt(lambda: _call(assignment))
    if not fine:
        sys.stderr.write(value[1])
    sys.stdout.flush()
    sys.stderr.flush()
    with os.fdopen(int(sys.argv[1]), "wb") as out:
        pickle.dump((fine, value), out)


if __name__ == "__main__":
    main()
