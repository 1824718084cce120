"""A rank of :func:`xoe.run`: reads the function from rank 0's standard input, calls it, and sends its result."""

from __future__ import annotations

import base64
import pickle
import sys
import traceback
from typing import Any

import cloudpickle


def _send(token: str, kind: str, value: Any) -> None:
    data = base64.b64encode(cloudpickle.dumps(value)).decode()
    sys.stdout.write(f"xoe-{token}:{kind}:{data}\n")
    sys.stdout.flush()


def _dumps(error: BaseException) -> bytes:
    try:
        return bytes(cloudpickle.dumps(error.with_traceback(None)))
    except Exception:
        return b""


def main() -> None:
    """Runs the function, on every rank."""
    from xoe import world
    from xoe.initialize import init, shutdown
    from xoe.objects import allgather_object, broadcast_object

    init()
    rank = world.rank()
    job = broadcast_object(pickle.loads(sys.stdin.buffer.read()) if rank == 0 else None, 0)
    sys.path[:] = job["path"]
    if not job["initialize"]:
        shutdown()  # the function finds the state that a new process has
    try:
        function, arguments, options = pickle.loads(job["call"])
        result = function(*arguments, **options)
        init()  # in case the function has called shutdown(), or not init()
        results = allgather_object(result)
    except BaseException as error:
        if not isinstance(error, SystemExit):
            traceback.print_exc()
            trace = traceback.format_exc()
            _send(job["token"], "failure", (rank, _dumps(error), trace))
            raise SystemExit(1) from None
        raise
    if rank == 0:
        _send(job["token"], "results", results)


main()
