"""A rank of :func:`xoe.run`: reads the function from rank 0's input, or from variables, calls it, and sends its result."""

from __future__ import annotations

import base64
import pickle
import sys
import traceback
from typing import Any

import cloudpickle

from xoe._call_variables import take_call


def _send(token: str, kind: str, value: Any) -> None:
    data = base64.b64encode(cloudpickle.dumps(value)).decode()
    sys.stdout.write(f"xoe-{token}:{kind}:{data}\n")
    sys.stdout.flush()


def _dumps(error: BaseException) -> bytes:
    try:
        return bytes(cloudpickle.dumps(error.with_traceback(None)))
    except Exception:
        return b""


def _read_job() -> Any:
    """What to call; and this process is in the world where that function expects it."""
    from xoe import world
    from xoe.initialize import init, shutdown
    from xoe.objects import broadcast_object

    init()
    job = broadcast_object(pickle.loads(sys.stdin.buffer.read()) if world.rank() == 0 else None, 0)
    if not job["initialize"]:
        shutdown()  # the function finds the state that a new process has
    return job


def _gather(result: Any, elastic: bool) -> list[Any]:
    """Of the ranks that there are."""
    from xoe.errors import HorovodInternalError
    from xoe.initialize import init, re_form
    from xoe.objects import allgather_object

    init()  # in case the function has called shutdown(), or not init()
    while True:
        try:
            return allgather_object(result, name="xoe.run.results")
        except HorovodInternalError:
            if not elastic:
                raise
            re_form()  # a rank was lost that had ended its function; raises where the job ends


def main() -> None:
    """Runs the function, on every rank."""
    from xoe import world
    from xoe.initialize import init

    elastic = take_call()
    job = _read_job() if elastic is None else pickle.loads(elastic)
    sys.path[:] = job["path"]
    if elastic and job["initialize"]:
        init()
    try:
        function, arguments, options = pickle.loads(job["call"])
        result = function(*arguments, **options)
        results = _gather(result, elastic is not None)
    except BaseException as error:
        if not isinstance(error, SystemExit):
            traceback.print_exc()
            trace = traceback.format_exc()
            rank = world.rank() if world.is_initialized() else -1
            _send(job["token"], "failure", (rank, _dumps(error), trace))
            raise SystemExit(1) from None
        raise
    if world.rank() == 0:
        _send(job["token"], "results", results)


main()
