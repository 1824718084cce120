"""What ranks forget before they train with MXNet: looked at in a trainer's first step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xoe.first_step import Advice, FirstStep, sum_of_bits

ADVICE = Advice(
    "mxnet.",
    "Call xoe.mxnet.broadcast_parameters(net.collect_params(), root_rank=0) before the first step",
    "such as inputs[xoe.mxnet.rank()::xoe.mxnet.size()]",
)


def look(step: FirstStep, params: Sequence[Any]) -> None:
    """Looks at parameters, and at gradients that are about to be reduced."""
    if step.is_over():
        return
    step.note_place()
    parameters = [sum_of_bits(param.list_data()[0].asnumpy()) for param in params]
    gradients = [sum_of_bits(param.list_grad()[0].asnumpy()) for param in params]
    step.see([param.name for param in params], parameters, gradients)
