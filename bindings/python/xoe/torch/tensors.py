"""Tensors of PyTorch as the core sees them: dense row-major memory, of one of its element types."""

from __future__ import annotations

import torch
import torch.utils.dlpack

from xoe import _core
from xoe.errors import InvalidArgumentError, UnsupportedError

DTYPES: dict[torch.dtype, int] = {getattr(torch, name): number for name, number in _core.DTYPES.items()}

# Types that the core lacks, but whose bits it can move; sums and products of the unsigned ones wrap to the same bits.
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


def engine_dtype(dtype: torch.dtype) -> torch.dtype | None:
    """The type that :func:`to_engine_tensor` returns for elements of this one; None: not supported."""
    if dtype.is_complex:
        dtype = dtype.to_real()
    return dtype if dtype in DTYPES else _SAME_BITS.get(dtype)


def _name(tensor: torch.Tensor) -> str:
    return f"{tensor.dtype} {list(tensor.shape)}".removeprefix("torch.")


def to_engine_tensor(tensor: torch.Tensor, reduction: str | None = None, target: str = "cpu") -> torch.Tensor:
    """A contiguous tensor with the same elements, of a type that the core has: ``tensor`` itself, a view, or a copy.

    reduction: "sum", "average", "min", "max" or "product" where elements are reduced; None where they only move.
    target: the kind of device that it must be on; see ``xoe.torch.gpu.choose_target``.
    """
    if (
        (tensor.is_cpu or tensor.device.type == target != "cpu")
        and tensor.dtype in DTYPES
        and tensor.is_contiguous()
        and not tensor.is_neg()
    ):
        return tensor
    if tensor.layout is not torch.strided:
        raise InvalidArgumentError(f"a tensor of layout {tensor.layout} was given; use sparse_allreduce_async, or to_dense()")
    if tensor.device.type == "meta":
        raise InvalidArgumentError(f"{_name(tensor)} is on the device meta: it has no data")
    tensor = tensor.detach()
    if tensor.is_complex():
        if reduction not in (None, "sum", "average"):
            raise UnsupportedError(f"{reduction} of {_name(tensor)}: complex numbers have a sum and an average only")
        tensor = torch.view_as_real(tensor.resolve_conj())
    if tensor.dtype not in DTYPES:
        other = _SAME_BITS.get(tensor.dtype)
        if other is None:
            raise UnsupportedError(f"{_name(tensor)}: Xoe does not know this type")
        wraps = str(tensor.dtype).removeprefix("torch.") in _WRAPS and reduction in ("sum", "product")
        if reduction is not None and not wraps:
            raise UnsupportedError(f"{reduction} of {_name(tensor)}; convert it to another type first")
        tensor = tensor.contiguous().view(other)
    return tensor.resolve_neg().to(tensor.device if tensor.device.type == target else target).contiguous()


def restore(result: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """The inverse of :func:`to_engine_tensor` for a result, which keeps its shape: type and device of ``like``."""
    if like.is_complex():
        result = torch.view_as_complex(result)
    elif result.dtype != like.dtype:
        result = result.view(like.dtype)
    return result if result.device == like.device else result.to(like.device)


def shares_memory(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether both are the same memory."""
    return one is other or (one.device == other.device and one.data_ptr() == other.data_ptr())


def describe(tensor: torch.Tensor, out: torch.Tensor | None) -> tuple[int, int, torch.Size, int]:
    """For ``Engine.submit``: address to read, address of the result (0: the engine provides memory), shape, type."""
    return tensor.data_ptr(), 0 if out is None else out.data_ptr(), tensor.shape, DTYPES[tensor.dtype]


def from_array(array: _core.Array, like: torch.Tensor) -> torch.Tensor:
    """A result in memory of the engine, which lives as long as the tensor; see :func:`restore`."""
    return restore(torch.utils.dlpack.from_dlpack(array), like)
