"""Collectives of Python objects."""

from __future__ import annotations

import pickle
from typing import Any

from xoe import _core
from xoe import world as _world
from xoe._signing import Call
from xoe.process_sets import ProcessSet, global_process_set


def _dumps(obj: Any) -> bytes:
    import cloudpickle

    return bytes(cloudpickle.dumps(obj))


def broadcast_object(
    obj: Any = None, root_rank: int = 0, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Any:
    """The object of ``root_rank`` (a rank of the world), on every rank of the set; the root gets its own object back.

    What the others pass is not looked at. Only the root pickles, the others load what it has signed with the job's key.
    """
    world = _world.current()
    root = process_set.root(root_rank)
    request = _core.Request(_core.KINDS["broadcast_bytes"], root=root, process_set=process_set._need(), needs_all_ranks=True)
    sends = world.rank == root_rank
    pickled = _dumps(obj) if sends else b""

    def send(call: Call) -> _core.Operation:
        data = call.sign(root_rank, pickled) if sends else b""
        return world.engine.submit(name or "", [_core.tensor_of(data)], request, keep=data)

    call, operation = world.signer.submit("broadcast", name or "", process_set.ranks or (), send)
    call.wait(operation)
    return obj if sends else pickle.loads(call.verify(root_rank, memoryview(operation.outputs()[0])))


def allgather_object(obj: Any, name: str | None = None, process_set: ProcessSet = global_process_set) -> list[Any]:
    """Every rank's object, by set rank, on every rank of the set."""
    world = _world.current()
    request = _core.Request(_core.KINDS["allgather"], process_set=process_set._need(), needs_all_ranks=True)
    ranks = process_set.ranks or ()
    pickled = _dumps(obj)

    def send(call: Call) -> _core.Operation:
        data = call.sign(world.rank, pickled)
        return world.engine.submit(name or "", [_core.tensor_of(data)], request, keep=data)

    call, operation = world.signer.submit("allgather", name or "", ranks, send)
    call.wait(operation)
    everything = memoryview(operation.outputs()[0])
    objects = []
    start = 0
    for sender, length in zip(ranks, operation.received_splits(), strict=True):
        objects.append(pickle.loads(call.verify(sender, everything[start : start + length])))
        start += length
    return objects
