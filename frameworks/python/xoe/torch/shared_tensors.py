"""Memory that the ranks of a host share, laid out for the parameters of an optimizer: each has its gradient on every rank, and
its values and its state once a host."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch

from xoe.world import World

# Parameters begin, and parts of ranks end, at multiples of this many elements: whole cache lines of every type.
ALIGN = 64
SLICE = 1 << 18  # elements: a part of a parameter that one thread updates
STATES = 3  # float32 tensors beside each parameter; memory that no step touches costs nothing
MODES = 3  # flags for what a rank is doing


class Place(NamedTuple):
    """A parameter among those of one type."""

    param: torch.Tensor
    name: str
    dtype: torch.dtype
    offset: int  # in elements, as their number below
    elements: int


class ParameterSlice(NamedTuple):
    """Elements of a parameter that one rank updates."""

    place: Place
    begin: int  # in the parameter
    elements: int


def align(count: int) -> int:
    """Empty parameters take space too, so that none has another's address."""
    return -(-max(count, 1) // ALIGN) * ALIGN


def lay_out(named: Sequence[tuple[str, torch.Tensor]]) -> tuple[list[Place], dict[torch.dtype, int]]:
    """Places in the order given, and how many elements there are of each type."""
    totals: dict[torch.dtype, int] = {}
    places = []
    for name, p in named:
        offset = totals.get(p.dtype, 0)
        places.append(Place(p, name, p.dtype, offset, p.numel()))
        totals[p.dtype] = offset + align(p.numel())
    return places, totals


def slices_of(places: Sequence[Place], totals: dict[torch.dtype, int], part: int, parts: int) -> Iterator[ParameterSlice]:
    """What rank ``part`` of ``parts`` updates: of each type one stretch of elements."""
    for place in places:
        blocks = totals[place.dtype] // ALIGN
        low, high = (blocks * index // parts * ALIGN for index in (part, part + 1))
        begin = max(low - place.offset, 0)
        end = min(high - place.offset, place.elements)
        for at in range(begin, end, SLICE):
            yield ParameterSlice(place, at, min(SLICE, end - at))


def dense_strides(p: torch.Tensor) -> tuple[int, ...]:
    """The strides of a gradient: the parameter's where it is dense, else row-major ones."""
    sizes = sorted((stride, size) for stride, size in zip(p.stride(), p.shape, strict=True) if size != 1)
    expected = 1
    for stride, size in sizes:
        if stride != expected:
            return torch.empty(p.shape, device="meta").stride()
        expected *= size
    return p.stride()


class _Region:
    """A buffer with a stretch of memory for each type, or for each of several tensors beside it."""

    def __init__(self) -> None:
        self.bytes = 0
        self._offsets: dict[Any, int] = {}

    def reserve(self, key: Any, size: int) -> None:
        self._offsets[key] = self.bytes
        self.bytes += -(-size // 4096) * 4096

    def __getitem__(self, key: Any) -> int:
        return self._offsets[key]


class SharedTensors:
    """The memory of one optimizer. Collective to make.

    Gradients of a rank, and its flags, lie in a buffer of that rank; values and states in one of the host's first rank.
    """

    def __init__(self, world: World, name: str, places: Sequence[Place], totals: dict[torch.dtype, int]) -> None:
        self._mine, self._host = _Region(), _Region()
        for dtype, count in totals.items():
            self._mine.reserve(dtype, count * dtype.itemsize)
            self._host.reserve(dtype, count * dtype.itemsize)
            for state in range(STATES + (dtype.itemsize == 2)):  # 16 bits: and a float32 copy of the values
                self._host.reserve((dtype, state), count * 4)
        self._mine.reserve("flags", len(places) + MODES)
        self._own, peers = world.engine.host_bytes(name + ".gradients", self._mine.bytes)
        self._peers = [peer for peer in peers if peer is not None]  # by local rank
        values, peers = world.engine.host_bytes(name + ".values", self._host.bytes)
        self._values = next(peer for peer in peers if peer is not None)
        self._lent = values if world.local_rank == 0 else None
        self._own_address, self._values_address = _address(self._own), _address(self._values)
        self._peer_addresses = [_address(peer) for peer in self._peers]
        # One a parameter, and MODES more; and their address.
        self.flags = memoryview(self._own)[self._mine["flags"] :][: len(places) + MODES]
        self.flags_address = self._own_address + self._mine["flags"]

    def lend(self) -> None:
        """Keeps values and states until the process ends: peers may use the parameters for longer than this optimizer lives."""
        if self._lent is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._lent))

    def take_back(self) -> None:
        """Ends :meth:`lend`, once no peer uses them."""
        if self._lent is not None:
            ctypes.pythonapi.Py_DecRef(ctypes.py_object(self._lent))

    def gradients_address(self, dtype: torch.dtype) -> int:
        """Of this rank's gradients of one type, which lie behind each other."""
        return self._own_address + self._mine[dtype]

    def gradient(self, place: Place) -> torch.Tensor:
        """This rank's gradient, in the form that autograd gives it."""
        return self._tensor(self._own, self._mine[place.dtype], place, place.dtype)

    def value(self, place: Place) -> torch.Tensor:
        """The parameter's values."""
        return self._tensor(self._values, self._host[place.dtype], place, place.dtype)

    def state(self, place: Place, index: int) -> torch.Tensor:
        """A float32 tensor beside the parameter; index STATES: the float32 copy of a 16-bit parameter's values."""
        return self._tensor(self._values, self._host[place.dtype, index], place, torch.float32)

    def value_address(self, part: ParameterSlice) -> int:
        return self._values_address + self._host[part.place.dtype] + _bytes_before(part, part.place.dtype.itemsize)

    def state_address(self, part: ParameterSlice, index: int) -> int:
        return self._values_address + self._host[part.place.dtype, index] + _bytes_before(part, 4)

    def gradient_addresses(self, part: ParameterSlice) -> list[int]:
        """Of all ranks of the host."""
        offset = self._mine[part.place.dtype] + _bytes_before(part, part.place.dtype.itemsize)
        return [address + offset for address in self._peer_addresses]

    @staticmethod
    def _tensor(array: Any, begin: int, place: Place, dtype: torch.dtype) -> torch.Tensor:
        """Alone in its storage, so that saving it saves no more."""
        p = place.param
        if place.elements == 0:
            return torch.empty(p.shape, dtype=dtype)
        offset = begin + place.offset * dtype.itemsize
        flat = torch.frombuffer(memoryview(array), dtype=dtype, count=place.elements, offset=offset)
        return flat.as_strided(p.shape, dense_strides(p))


def _address(array: Any) -> int:
    return torch.frombuffer(memoryview(array), dtype=torch.uint8).data_ptr()


def _bytes_before(part: ParameterSlice, itemsize: int) -> int:
    return (part.place.offset + part.begin) * itemsize
