"""What ranks forget before they train with Keras: looked at in the second step, since programs may broadcast after the first
one, which makes the optimizer's variables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xoe.first_step import Advice, FirstStep

ADVICE = Advice(
    "keras.",
    "Give fit() xoe.keras.callbacks.BroadcastGlobalVariablesCallback(0) in callbacks=",
    "such as inputs[xoe.keras.rank()::xoe.keras.size()]",
    skipped=1,
)


def look_on_jax(step: FirstStep, gradients: Sequence[Any], variables: Sequence[Any]) -> None:
    """Looks at gradients that are about to be reduced, inside and outside of jit."""
    from xoe.jax.first_step import look_at

    look_at(step, [_name(one) for one in variables], [getattr(one, "value", one) for one in variables], gradients)


def look_on_torch(step: FirstStep, gradients: Sequence[Any], variables: Sequence[Any]) -> None:
    """Looks at gradients that are about to be reduced, unless torch.compile traces the step."""
    import torch

    from xoe.torch.first_step import bits

    if torch.compiler.is_compiling() or step.is_over():
        return
    step.note_place()
    parameters, seen = ([int(bits(getattr(one, "value", one))) for one in tensors] for tensors in (variables, gradients))
    step.see([_name(one) for one in variables], parameters, seen)


def _name(variable: Any) -> str:
    return str(getattr(variable, "path", "a parameter"))
