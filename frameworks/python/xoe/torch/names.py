"""Names of parameters, for messages and for matching between ranks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import torch

from xoe.errors import InvalidArgumentError


def parameter_names(
    param_groups: list[dict[str, Any]], named_parameters: Iterable[tuple[str, torch.Tensor]] | None
) -> dict[torch.Tensor, str]:
    """A name for each parameter of an optimizer. Raises InvalidArgumentError for missing or repeated names."""
    every = [p for group in param_groups for p in group["params"]]
    if named_parameters is None:
        return {p: f"parameter{index}" for index, p in enumerate(every)}
    named = list(named_parameters)
    if any(not isinstance(pair, tuple) or len(pair) != 2 for pair in named):
        raise InvalidArgumentError(
            "named_parameters must be pairs of a name and a parameter, as model.named_parameters() yields"
        )
    twice = [name for name, count in Counter(name for name, _ in named).items() if count > 1]
    if twice:
        raise InvalidArgumentError(f"names occur in named_parameters twice: {', '.join(twice[:10])}")
    names = {p: name for name, p in named}
    missing = sum(p not in names for p in every)
    if missing:
        raise InvalidArgumentError(f"{missing} of the optimizer's {len(every)} parameters are not in named_parameters")
    return names
