"""Methods of a distributed optimizer, which shares its attributes with the plain optimizer that it was made from."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from types import MethodType
from typing import Any

from xoe.errors import UnsupportedError


class Override:
    """A method that no attribute of that name in the shared ``__dict__`` hides.

    Learning-rate schedulers, for one, replace ``step`` of the plain optimizer, before or after the distributed one is made.
    What they put there becomes the inner function, see :meth:`Wrapping._inner`. A function that is set on the distributed
    optimizer itself replaces the method, as it would for any object.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        function.hooked = True  # type: ignore[attr-defined]  # torch runs the hooks of a step around the inner one
        self._function = function
        self.__doc__ = function.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, optimizer: Any, owner: type | None = None) -> Any:
        if optimizer is None:
            return self._function
        return optimizer._replaced.get(self._name) or MethodType(self._function, optimizer)

    def __set__(self, optimizer: Any, value: Any) -> None:
        optimizer._replaced[self._name] = value

    def __delete__(self, optimizer: Any) -> None:
        if optimizer._replaced.pop(self._name, None) is None:
            raise AttributeError(self._name)


class Wrapping:
    """An optimizer around a plain one, with the same attributes."""

    # Not in the shared __dict__; the class made from the optimizer's own has slots for them.
    _plain: Any
    _replaced: dict[str, Any]

    param_groups: list[dict[str, Any]]

    @classmethod
    def around(cls, optimizer: Any) -> Any:
        """An optimizer of a class made from this one and the plain optimizer's."""
        own = type(optimizer)
        made: Any = object.__new__(
            type(own.__name__, (cls, own), {"__module__": own.__module__, "__slots__": ("_plain", "_replaced")})
        )
        made._plain = optimizer  # the functions that were set on it need it
        made._replaced = {}
        made.__dict__ = optimizer.__dict__
        return made

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Raises UnsupportedError, for pickle and copy: the optimizer belongs to this rank, its world and its parameters."""
        raise UnsupportedError(
            "a distributed optimizer cannot be pickled or copied, since it belongs to this rank's world: save its state_dict();"
            " for a copy, load copy.deepcopy(optimizer.state_dict()) into an optimizer of the copied model, and wrap that one"
        )

    def _parameters(self) -> Iterator[Any]:
        for group in self.param_groups:
            yield from group["params"]

    def _has_parameters(self, known: Sequence[Any]) -> bool:
        """Whether the groups have these parameters, and no others, in this order."""
        now = list(self._parameters())
        return len(now) == len(known) and all(map(operator.is_, now, known))

    def _inner(self, name: str) -> Any:
        """The method of the plain optimizer's class, or the function that replaces it there."""
        own = self.__dict__.get(name)
        return getattr(super(), name) if own is None else own


def remove_hooks(hooks: list[Any]) -> None:
    """Those of an optimizer that has ended."""
    for hook in hooks:
        hook.remove()
