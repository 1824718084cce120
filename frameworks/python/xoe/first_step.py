"""What ranks forget before they train: compared in the first steps of an optimizer, and said in one warning.

This is what the frameworks have in common. They give sums of bits, see :func:`sum_of_bits`; the first rank of the process set
warns. Collective: all ranks of the set look at the same steps, also those that leave the comparison out.
"""

from __future__ import annotations

import array
import atexit
import ctypes
import os
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, NamedTuple

from xoe import _core
from xoe import world as _world
from xoe.errors import FirstStepWarning, InvalidArgumentError, UnsupportedError, XoeError
from xoe.process_sets import ProcessSet

VARIABLE = "XOE_CHECK_FIRST_STEP"
LIMIT = 1 << 16  # of the values of a tensor that are compared
_POSITIVE = (1 << 63) - 1
_OF_FRAMEWORKS = ("jax", "keras", "mxnet", "optax", "tensorflow", "tf_keras", "torch", "xoe")


class Advice(NamedTuple):
    """What a framework's users call. prefix: of the operation's name. skipped: the steps before the one that is looked at,
    where programs may broadcast after their first one."""

    prefix: str
    broadcast: str
    part: str
    skipped: int = 0

    def of_parameters(self, names: Sequence[str]) -> str:
        """The warning that these differ."""
        listed = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        return f"ranks start from different parameters: {listed}. {self.broadcast}, or give all ranks the same seed"

    def of_batches(self) -> str:
        """The warning that gradients are the same."""
        step = "second" if self.skipped else "first"
        return (
            f"all ranks computed the same gradients in the {step} step, as if on the same batch. Give each rank its part of the"
            f" data, {self.part}, and a seed of its own if data are random"
        )


def is_wanted() -> bool:
    """Whether this rank compares."""
    return os.environ.get(VARIABLE, "1").lower() not in ("0", "false", "off", "no")


def compare(
    names: Sequence[str],
    parameters: Sequence[Sequence[int]],
    gradients: Sequence[int],
    wanted: bool,
    advice: Advice,
    process_set: ProcessSet,
) -> str | None:
    """Compares with the other ranks; gives back what the first of them should warn of. Collective, also where a rank does not
    want it.

    parameters: sums of the parameters with these names, once for each step that was looked at; one that differs in all of
        them is told. gradients: sums, of any number.
    None, on all ranks: one has joined, whose first step is still to come. Compare again after the next step.
    """
    mine = [one & _POSITIVE for sums in (*parameters, gradients) for one in sums]
    # The largest and the smallest of each in one operation.
    largest = array.array("q", [*mine, *(-one for one in mine), not wanted])
    request = _core.Request(
        _core.KINDS["allreduce"],
        _core.REDUCTIONS["max"],
        process_set=process_set._need(),
        needs_all_ranks=True,
        queue_same_name=True,
    )
    address, count = largest.buffer_info()
    try:
        tensors = [(address, address, (count,), _core.DTYPES["int64"])]
        _world.current().engine.submit(f"{advice.prefix}first_step", tensors, request, None, largest).wait()
    except UnsupportedError:
        return ""  # NCCL alone carries all data
    except InvalidArgumentError:
        return None  # or the ranks do not have the same parameters, which reducing them says better
    if largest[-1] or process_set.rank() != 0:
        return ""  # a rank leaves it out
    equal = [largest[index] == -largest[len(mine) + index] for index in range(len(mine))]
    first = len(mine) - len(gradients)
    other = [name for index, name in enumerate(names) if not any(equal[index : first : len(names)])]
    if other:
        found = advice.of_parameters([name.removeprefix("gradient.") for name in other])
    elif any(gradients) and all(equal[first:]):
        found = advice.of_batches()
    else:
        return ""
    return f"{found} ({VARIABLE}=0 leaves this check out)"


class FirstStep:
    """Of one optimizer: whether its steps are still looked at, in this world."""

    def __init__(self, advice: Advice, process_set: ProcessSet) -> None:
        self._advice, self._process_set = advice, process_set
        self._place: tuple[str, int] | None = None
        self._world: Any = None
        self._is_over = False
        self._earlier: list[list[int]] = []

    def __getstate__(self) -> dict[str, Any]:
        """Without what this process has seen: another one starts from the beginning."""
        return {**vars(self), "_world": None, "_is_over": False, "_earlier": []}

    def note_place(self) -> None:
        """Remembers where the program reduces gradients, for the warning."""
        if self._place is None:
            self._place = place_of_caller()

    def is_alone(self) -> bool:
        """Whether there are no other ranks to compare with."""
        return self._process_set.size() == 1

    def stays_alone(self) -> bool:
        """Whether there will be none either: programs that are traced may leave the comparison out."""
        return self._process_set._stays_alone()

    def is_over(self) -> bool:
        """Whether this world's first steps have been compared."""
        world = _world.current()
        if self._world is not world:  # also of ranks that go on, with those that are new
            self._world, self._is_over, self._earlier = world, self.is_alone(), []
        return self._is_over

    def see(self, names: Sequence[str], parameters: Sequence[int], gradients: Sequence[int], readable: bool = True) -> None:
        """Looks at a step, before its gradients are reduced. readable: whether this rank could read the values."""
        if self.is_over():
            return
        if len(self._earlier) < self._advice.skipped:
            self._earlier.append(list(parameters))
            return
        wanted = readable and is_wanted()
        compared = [one for one in (*self._earlier, parameters) if len(one) == len(names)]
        found = compare(names, compared, gradients, wanted, self._advice, self._process_set)
        if found is None:
            return
        self._is_over, self._earlier = True, []
        if found:
            warn(found, self._place)


def place_of_caller() -> tuple[str, int]:
    """File and line of the program that called a framework, or Xoe, in whose code this is called."""
    frame = sys._getframe(1)
    while frame.f_back is not None and _is_of_a_framework(frame):
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


def _is_of_a_framework(frame: FrameType) -> bool:
    """Also what TensorFlow makes of functions, which it writes to files of its own."""
    package = frame.f_globals.get("__name__", "").partition(".")[0]
    return package in _OF_FRAMEWORKS or os.path.basename(frame.f_code.co_filename).startswith("__autograph_generated_file")


def warn(text: str, place: tuple[str, int] | None = None, category: type[Warning] = FirstStepWarning) -> None:
    """Warns of the place, default: the caller's."""
    file, line = place or place_of_caller()
    warnings.warn_explicit(text, category, file, line)


# ---- Values that NumPy sees


def sum_of_bits(values: Any) -> int:
    """The sum of an array's first 65,536 values, their bits read as whole numbers: it does not depend on the order of
    additions. values: of NumPy, or what it takes as an array."""
    import numpy as np

    values = np.asarray(values).reshape(-1)[:LIMIT]
    if values.size == 0 or values.dtype == object:
        return 0
    width = values.dtype.itemsize // (2 if values.dtype.kind == "c" else 1)
    if width not in (1, 2, 4, 8):
        return 0
    return int(np.ascontiguousarray(values).view(f"i{width}").sum(dtype=np.int64))


# ---- Values in the programs of a framework, which a library of frameworks/plugins shows


class _Observed(ctypes.Structure):
    _fields_ = (("data", ctypes.c_void_p), ("bytes", ctypes.c_int64), ("width", ctypes.c_int64))


_LOOK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int64, ctypes.POINTER(_Observed), ctypes.c_size_t)
_connected: list[Any] = []  # a library may call as long as it is loaded


class Observed:
    """The tensors of a call, in their order."""

    def __init__(self, tensors: Any, count: int) -> None:
        self._tensors = [tensors[index] for index in range(count)]
        self.readable = all(one.data or one.bytes == 0 for one in self._tensors)

    def sums(self) -> list[int]:
        """As :func:`sum_of_bits`; zeros where memory is not readable."""
        return [self._sum(one) if self.readable else 0 for one in self._tensors]

    @staticmethod
    def _sum(tensor: Any) -> int:
        import numpy as np

        size = min(tensor.bytes, LIMIT * tensor.width)
        if size == 0:
            return 0
        memory = (ctypes.c_char * size).from_address(tensor.data)
        return int(np.frombuffer(memory, f"i{tensor.width}").sum(dtype=np.int64))


def observe(library: Any, prefix: str, look: Callable[[int, Observed], bool]) -> None:
    """Lets a plugin call ``look`` for calls with a number other than 0: whether the call need not be looked at again in this
    world. Threads of the framework call it, whose programs wait; it may communicate."""

    @_LOOK  # type: ignore[untyped-decorator, unused-ignore]
    def called(number: int, tensors: Any, count: int) -> int:
        try:
            return look(number, Observed(tensors, count))
        except XoeError:
            return 1  # the operation that follows fails in the same way

    _connected.append((library, called))
    connect, begin_again = getattr(library, f"{prefix}_observe"), getattr(library, f"{prefix}_begin_again")
    connect.argtypes, connect.restype = [_LOOK], None
    connect(called)
    _world.on_begin(begin_again)
    atexit.register(connect, _LOOK(0))


class Parts:
    """The tensors of one step that several calls of a program reduce, in any threads.

    parameters: reads the sums of parameters, before any of the step's gradients have been reduced: None where they cannot be
        read.
    """

    def __init__(self, step: FirstStep, names: Sequence[str], parameters: Callable[[], list[int] | None]) -> None:
        self.count = 0
        self._step, self._names, self._read = step, names, parameters
        self._lock = threading.Lock()
        self._seen: dict[int, list[int]] = {}
        self._parameters: list[int] | None = None
        self._readable = True

    def add(self) -> int:
        """The number of one more part."""
        self.count += 1
        return self.count - 1

    def look(self, part: int, observed: Observed) -> bool:
        """Takes a part of a step that is about to be reduced; whether that is looked at no more."""
        with self._lock:
            if self._step.is_over():
                return True
            if not self._seen or part in self._seen:
                self._seen, self._parameters = {}, self._read()
                self._readable = self._parameters is not None
            self._seen[part] = observed.sums()
            self._readable = self._readable and observed.readable
            if len(self._seen) < self.count:
                return False
            gradients = [one for index in sorted(self._seen) for one in self._seen[index]]
            parameters = self._parameters or [0] * len(self._names)
            self._seen = {}
            self._step.see(self._names, parameters, gradients, self._readable)
            return self._step.is_over()
