"""Keeps torch.compile out of the backend.

While a compiled program runs, Dynamo compiles every Python function that is called in its thread, also those that PyTorch's C++
calls: DDP's reducer calls the group. It cannot compile these, and they hold nothing that could be compiled.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import torch

_Class = TypeVar("_Class", bound=type)
_frames: Any = torch._C._dynamo.eval_frame  # torch._dynamo takes seconds to import


def untraced(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which Dynamo leaves alone, with all that it calls."""

    def call(*arguments: Any, **options: Any) -> Any:
        tracer = _frames.set_eval_frame(None)
        if tracer is None:
            return function(*arguments, **options)
        try:
            return function(*arguments, **options)
        finally:
            _frames.set_eval_frame(tracer)

    _skip(call.__code__)
    call._torchdynamo_disable = True  # type: ignore[attr-defined]
    return functools.wraps(function)(call)


def untraced_methods(kind: _Class) -> _Class:
    """A class decorator: :func:`untraced` for the methods that PyTorch calls, which its base class has."""
    for name, method in list(vars(kind).items()):
        if callable(method) and not name.startswith("__") and hasattr(kind.__base__, name):
            setattr(kind, name, untraced(method))
    return kind


def _skip(code: Any) -> None:
    if hasattr(_frames, "skip_code"):  # before 2.7
        _frames.skip_code(code)
    else:
        skip = _frames._FrameAction.SKIP
        _frames.set_code_exec_strategy(code, _frames._FrameExecStrategy(skip, skip))
