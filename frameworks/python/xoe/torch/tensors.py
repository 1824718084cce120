"""PyTorch tensors as the engine accepts them: dense row-major memory of one of its element types."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
import torch.utils.dlpack

from xoe import _core
from xoe.errors import InvalidArgumentError, UnsupportedError

DTYPES: dict[torch.dtype, int] = {getattr(torch, name): number for name, number in _core.DTYPES.items()}

# Types that the engine lacks, but whose bits it can move; sums and products of integers wrap to the same bits.
_SAME_BITS: dict[torch.dtype, torch.dtype] = {
    getattr(torch, name): other
    for name, other in (
        ("uint16", torch.int16),
        ("uint32", torch.int32),
        ("uint64", torch.int64),
        ("float8_e4m3fn", torch.uint8),
        ("float8_e5m2", torch.uint8),
        ("float8_e4m3fnuz", torch.uint8),
        ("float8_e5m2fnuz", torch.uint8),
    )
    if hasattr(torch, name)
}
_WRAPS = frozenset(("uint16", "uint32", "uint64"))


def engine_type(dtype: torch.dtype) -> torch.dtype | None:
    """The type to which :func:`to_engine` converts elements of this type; None: it does not support them."""
    if dtype.is_complex:
        dtype = dtype.to_real()
    return dtype if dtype in DTYPES else _SAME_BITS.get(dtype)


def need_tensors(tensors: Iterable[Any]) -> None:
    """Raises TypeError where one is something else, such as a list or a NumPy array."""
    for tensor in tensors:
        if not isinstance(tensor, torch.Tensor):
            kind = type(tensor)
            is_array = kind.__module__.partition(".")[0] == "numpy"
            known = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
            raise TypeError(f"expected a torch.Tensor, got {known}; pass torch.{'from_numpy' if is_array else 'tensor'}(...)")


def _name(tensor: torch.Tensor) -> str:
    return f"{tensor.dtype} {list(tensor.shape)}".removeprefix("torch.")


def to_engine(tensor: torch.Tensor, reduction: str | None = None, device: str = "cpu") -> torch.Tensor:
    """A contiguous tensor of one of the engine's types with the same elements: ``tensor`` itself, a view, or a copy.

    reduction: "sum", "average", "min", "max" or "product"; None for data movement.
    device: the kind of device for the result; see ``xoe.torch.gpu.choose_device``.
    """
    if (
        (tensor.is_cpu or tensor.device.type == device != "cpu")
        and tensor.dtype in DTYPES
        and tensor.is_contiguous()
        and not tensor.is_neg()
    ):
        return tensor
    if tensor.layout is not torch.strided:
        raise InvalidArgumentError(f"layout {tensor.layout} is not supported; use sparse_allreduce_async, or to_dense()")
    if tensor.device.type == "meta":
        raise InvalidArgumentError(f"{_name(tensor)} is on the device meta: it has no data")
    tensor = tensor.detach()
    if tensor.is_complex():
        if reduction not in (None, "sum", "average"):
            raise UnsupportedError(f"{reduction} of {_name(tensor)}: complex numbers support sum and average only")
        tensor = torch.view_as_real(tensor.resolve_conj())
    if tensor.dtype not in DTYPES:
        other = _SAME_BITS.get(tensor.dtype)
        if other is None:
            raise UnsupportedError(f"{_name(tensor)}: Xoe does not support this type")
        wraps = str(tensor.dtype).removeprefix("torch.") in _WRAPS and reduction in ("sum", "product")
        if reduction is not None and not wraps:
            raise UnsupportedError(f"{reduction} of {_name(tensor)}; convert it to another type first")
        tensor = tensor.contiguous().view(other)
    return tensor.resolve_neg().to(tensor.device if tensor.device.type == device else device).contiguous()


def restore(result: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """The inverse of :func:`to_engine` for a result: has the type and device of ``like``, and the shape of ``result``."""
    if like.is_complex():
        result = torch.view_as_complex(result)
    elif result.dtype != like.dtype:
        result = result.view(like.dtype)
    return result if result.device == like.device else result.to(like.device)


def shares_memory(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether both are the same memory."""
    return one is other or (one.device == other.device and one.data_ptr() == other.data_ptr())


def describe(tensor: torch.Tensor, out: torch.Tensor | None) -> tuple[int, int, torch.Size, int]:
    """For ``Engine.submit``: addresses of input and result (0: the engine allocates the result), shape, type."""
    return tensor.data_ptr(), 0 if out is None else out.data_ptr(), tensor.shape, DTYPES[tensor.dtype]


def of_array(array: _core.Array, like: torch.Tensor) -> torch.Tensor:
    """The result in ``array``, whose memory the tensor keeps alive; see :func:`restore`."""
    return restore(torch.utils.dlpack.from_dlpack(array), like)
