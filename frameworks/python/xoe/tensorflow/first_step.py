"""What ranks forget before they train with TensorFlow: looked at in the second step, since programs may broadcast after the
first one, which makes the optimizer's variables.

Eagerly values are at hand. In a ``tf.function`` the operations that reduce gradients show them to Python, until Python has
seen enough: how often a rank traces a function does not matter. In a program that XLA compiles a call before them does, and
shows the variables with the gradients: XLA locks those while it runs. Graphs of TensorFlow 1 are not looked at.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from xoe.first_step import Advice, FirstStep, Observed, Parts, sum_of_bits
from xoe.process_sets import ProcessSet
from xoe.tensorflow import compiled
from xoe.tensorflow.library import number_of

ADVICE = Advice(
    "tensorflow.",
    "Call xoe.tensorflow.broadcast_variables(model.variables, root_rank=0) before the second step",
    "such as dataset.shard(xoe.tensorflow.size(), xoe.tensorflow.rank())",
    skipped=1,
)

_numbering = threading.Lock()
_of_tapes: dict[Any, FirstStep] = {}


@tf.autograph.experimental.do_not_convert
def of_tapes(process_set: ProcessSet, gradients: Sequence[Any]) -> FirstStep:
    """Each step has a tape of its own: those whose gradients look alike, and match on other ranks, are of one program."""
    # as_list() gives integers in TensorFlow 1's mode as well, where a shape has objects that cannot be keys.
    shapes = tuple(None if gradient.shape.rank is None else tuple(gradient.shape.as_list()) for gradient in gradients)
    key = (id(process_set), shapes)  # its number is used again after another init; the step keeps the object
    with _numbering:
        return _of_tapes.setdefault(key, FirstStep(ADVICE, process_set))


@tf.autograph.experimental.do_not_convert
def look(step: FirstStep, gradients: Sequence[Any], variables: Sequence[Any]) -> Parts | None:
    """Looks at dense gradients that are about to be reduced, and at their variables. In a graph: what the operations that
    reduce them take part in."""
    eagerly = tf.executing_eagerly()
    if step.stays_alone() or (eagerly and step.is_over()) or not tf.compat.v1.executing_eagerly_outside_functions():
        return None
    pairs = [(gradient, _variable(variable)) for gradient, variable in zip(gradients, variables, strict=True)]
    known = [(gradient, variable) for gradient, variable in pairs if variable is not None]
    names = [_name(variable) for variable in variables if _variable(variable) is not None]
    if not known:
        return None
    if compiled.is_compiled():
        if not compiled.can_show(gradients):
            return None
        step.note_place()
        compiled.show([*(variable for _, variable in known), *(gradient for gradient, _ in known)], _see(step, names))
        return None
    if not eagerly:
        step.note_place()
        references = [weakref.ref(variable) for _, variable in known]
        return Parts(step, names, lambda: _sums([reference() for reference in references]))
    step.note_place()
    parameters = _sums([variable for _, variable in known])
    seen = [sum_of_bits(gradient.numpy()) for gradient, _ in known]
    step.see(names, parameters or [0] * len(names), seen, parameters is not None)
    return None


def _see(step: FirstStep, names: Sequence[str]) -> Callable[[Observed], bool]:
    """Looks at the variables of these names and at their gradients."""

    def look(observed: Observed) -> bool:
        if not step.is_over():
            sums = observed.sums()
            step.see(names, sums[: len(names)], sums[len(names) :], observed.readable)
        return step.is_over()

    return look


@tf.autograph.experimental.do_not_convert
def number(parts: Parts | None) -> int:
    """The number of a node that reduces one more part of a step's gradients; 0: Python does not look at it."""
    if parts is None:
        return 0
    with _numbering:
        part = parts.add()
    return number_of(functools.partial(parts.look, part))


def _variable(source: Any) -> Any:
    """TensorFlow's variable: a source itself, or in Keras 3's around it."""
    inner = getattr(source, "value", source)
    inner = source if callable(inner) else inner
    return inner if isinstance(inner, tf.Variable) else None


def _name(source: Any) -> str:
    return str(getattr(source, "path", None) or source.name).removesuffix(":0")


def _sums(variables: Sequence[Any]) -> list[int] | None:
    try:
        return [sum_of_bits(variable.numpy()) for variable in variables]
    except (AttributeError, NotImplementedError, ValueError, tf.errors.OpError):
        return None  # one is gone, or lies on several devices
