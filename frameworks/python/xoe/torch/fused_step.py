"""Steps of whole parameters in host memory, each in one pass over gradient, state and parameter."""

from __future__ import annotations

import weakref
from collections.abc import MutableMapping, Sequence
from typing import Any

import torch

from xoe import _core
from xoe.torch.fused_optimizers import FusedOptimizer, GroupUpdate
from xoe.torch.shared_tensors import SLICE, dense_strides
from xoe.torch.tensors import DTYPES

State = MutableMapping[torch.Tensor, dict[str, Any]]
# Options of PyTorch's optimizers that ask for another step.
_OTHER_STEPS = ("foreach", "fused", "capturable", "differentiable")


class _Addresses:
    """The slices of a parameter, for as long as its tensors stay what and where they are."""

    __slots__ = ("_places", "_tensors", "slices")

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        self._tensors = [weakref.ref(tensor) for tensor in tensors]
        self._places = [_place(tensor) for tensor in tensors]
        self.slices = _slices(tensors[0].numel(), [tensor.data_ptr() for tensor in tensors])

    def are_of(self, tensors: Sequence[torch.Tensor]) -> bool:
        return len(tensors) == len(self._tensors) and all(
            tensor is known() and _place(tensor) == place
            for tensor, known, place in zip(tensors, self._tensors, self._places, strict=True)
        )


class FusedStep:
    """The steps of one optimizer."""

    def __init__(self, fused: FusedOptimizer) -> None:
        self._fused = fused
        self._updates = GroupUpdate(fused)
        self._addresses: dict[int, _Addresses] = {}  # by the parameter's id()

    def run(self, group: dict[str, Any], state: State) -> list[tuple[torch.Tensor, Any]]:
        """Updates the parameters of a group that have a gradient. Those that are not dense float32 tensors in host memory are
        given back, each with what begin() returned: their state is there, and the rest is for the caller to do."""
        parameters, others, stepped = [], [], []
        for p in group["params"]:
            if p.grad is None:
                continue
            own = state[p] if self._fused.used_names(group) else {}
            tensors = self._state_tensors(group, p, own)
            begun = self._fused.begin(group, own, tensors)
            slices = self._slices_of([p, p.grad, *tensors])
            if slices is None:
                others.append((p, begun))
            else:
                parameters.append((begun, slices))
                stepped.append(p)
        self._updates.run(group, parameters)
        for p in stepped:
            torch.autograd.graph.increment_version(p)
        return others

    def run_all(self, group: dict[str, Any], state: State) -> bool:
        """As :meth:`run`; False, and nothing happened: the group's options or parameters need the optimizer's own step."""
        if any(group.get(option) for option in _OTHER_STEPS):
            return False
        for p in group["params"]:
            if p.grad is None:
                continue
            known = state.get(p, {})
            tensors = [known[name] for name in self._fused.used_names(group) if known.get(name) is not None]
            if self._slices_of([p, p.grad, *tensors]) is None:
                return False
        self.run(group, state)
        return True

    def forget(self, parameters: Sequence[torch.Tensor]) -> None:
        """What was noted of parameters that the optimizer does not have any more."""
        for p in parameters:
            self._addresses.pop(id(p), None)

    def _state_tensors(self, group: dict[str, Any], p: torch.Tensor, own: dict[str, Any]) -> list[torch.Tensor]:
        return [torch.zeros_like(p) if own.get(name) is None else own[name] for name in self._fused.used_names(group)]

    def _slices_of(self, tensors: list[torch.Tensor]) -> list[_core.StepSlice] | None:
        """Of parameter, gradient and state; None: they do not lie alike."""
        p = tensors[0]
        addresses = self._addresses.get(id(p))
        if addresses is None or not addresses.are_of(tensors):
            if not all(_lies_like(p, tensor) for tensor in tensors):
                return None
            addresses = self._addresses[id(p)] = _Addresses(tensors)
        return addresses.slices


def _place(tensor: torch.Tensor) -> tuple[Any, ...]:
    """What a program may change of a tensor, by ``.data`` for one."""
    return tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride()


def _lies_like(p: torch.Tensor, tensor: torch.Tensor) -> bool:
    return (
        tensor.layout is torch.strided
        and tensor.is_cpu
        and tensor.dtype is torch.float32
        and tensor.shape == p.shape
        and _strides(tensor) == _strides(p)
        and p.stride() == dense_strides(p)
        and not tensor.is_neg()
    )


def _strides(tensor: torch.Tensor) -> list[int]:
    """Of dimensions where they mean something: of size 1 they differ between a 1x1 convolution's weight and its gradient."""
    return [stride for stride, size in zip(tensor.stride(), tensor.shape, strict=True) if size != 1]


def _slices(count: int, places: Sequence[int]) -> list[_core.StepSlice]:
    kind, reduction = DTYPES[torch.float32], _core.REDUCTIONS["sum"]
    made = []
    for begin in range(0, count, SLICE):
        values, gradient, *states = (place + begin * torch.float32.itemsize for place in places)
        made.append(_core.StepSlice(values, 0, [gradient], min(SLICE, count - begin), kind, kind, reduction, states))
    return made
