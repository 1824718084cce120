"""Reduction operations."""

from __future__ import annotations

import warnings
from enum import IntEnum

from xoe.errors import InvalidArgumentError

# What the module of every framework has.
__all__ = ["Adasum", "Average", "Max", "Min", "Product", "ReduceOp", "Sum"]


class ReduceOp(IntEnum):
    """The numbers are Horovod's. Integers wrap, and their average truncates toward zero; float16 and bfloat16 are summed in
    float32; sum and max of bools are "or", product and min are "and".
    """

    Average = 0
    Sum = 1
    Adasum = 2  # Maleki et al., "Scaling Distributed Training with Adaptive Summation", 2020
    Min = 3
    Max = 4
    Product = 5

    __str__ = IntEnum.__repr__


Average = ReduceOp.Average
Sum = ReduceOp.Sum
Adasum = ReduceOp.Adasum
Min = ReduceOp.Min
Max = ReduceOp.Max
Product = ReduceOp.Product


def choose(op: ReduceOp | int | None, average: bool | None) -> ReduceOp:
    """``op``, or its equivalent for Horovod's older argument ``average``; default Average."""
    if average is None:
        return Average if op is None else op if type(op) is ReduceOp else ReduceOp(op)
    if op is not None:
        raise InvalidArgumentError("pass either op or average, not both; average is deprecated")
    warnings.warn("average is deprecated; pass op=Average or op=Sum", DeprecationWarning, stacklevel=3)
    return Average if average else Sum
