"""Compiled programs that show gradients and parameters before they are reduced, by the number of their call."""

from __future__ import annotations

import threading

from xoe.first_step import FirstStep, Observed

_programs: list[tuple[FirstStep, tuple[str, ...]]] = []  # by number, from 1 on
_numbering = threading.Lock()


def number_of(step: FirstStep, names: tuple[str, ...]) -> int:
    """The number of the call of this step, with parameters of these names."""
    with _numbering:
        for number, known in enumerate(_programs, 1):
            if known[0] is step and known[1] == names:
                return number
        _programs.append((step, names))
        return len(_programs)


def on_observed(number: int, observed: Observed) -> bool:
    """Of the call with this number; whether it need not be looked at any more in this world."""
    if not 0 < number <= len(_programs):
        return True  # a program that another process has exported
    step, names = _programs[number - 1]
    if not step.is_over():
        sums = observed.sums()
        step.see(names, sums[: len(names)], sums[len(names) :], observed.readable)
    return step.is_over()
