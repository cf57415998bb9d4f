"""Matrix products in single precision, by the library that is fastest on this processor.

PyTorch hands them to MKL, which serves the processors of other makers than its own by older
instructions: where AVX-512 is there, that halves the speed. oneDNN, which is in PyTorch too,
generates its code for the processor at hand. Both round each product of a sum once and add in an
order of their own, so that results differ in the last bits alone.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor

ENOUGH_WORK = 2**21
"""Multiplications from which on the way to oneDNN costs less than it saves."""
NARROW = 32
"""Columns of a result below which turning the left operand round costs more than it saves."""


def product(
    a: Tensor, b: Tensor, bias: Tensor | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Multiply a (m × k) by b (k × n), both of one type, and add a bias (n) to each row, if any.

    Gradients, types other than float32 and devices other than the CPU are PyTorch's matter. `out`
    is the place for the result; it may have another type.
    """
    if a.dtype == torch.float32 and _is_worth_it(a, b) and _by_onednn(a, b, bias):
        result: Tensor = _linear()(a, b.T, bias, "none", [], "")
    else:
        in_place = out if out is not None and out.dtype == a.dtype else None
        if bias is None:
            result = torch.mm(a, b, out=in_place)
        else:
            result = torch.addmm(bias, a, b, out=in_place)
    return result if out is None or result is out else out.copy_(result)


def _is_worth_it(a: Tensor, b: Tensor) -> bool:
    by_rows = a.stride(1) == 1  # else oneDNN gets a copy of it
    columns = b.shape[1]
    return a.numel() * columns >= ENOUGH_WORK and (by_rows or columns >= NARROW)


def _by_onednn(*operands: Tensor | None) -> bool:
    """Tell whether oneDNN may do it: its product has no rule of differentiation."""
    given = [operand for operand in operands if operand is not None]
    if torch.is_grad_enabled() and any(operand.requires_grad for operand in given):
        return False
    return all(operand.device.type == "cpu" for operand in given) and _onednn_is_faster()


@cache
def _onednn_is_faster() -> bool:
    """Tell whether this processor has what MKL may leave unused, and PyTorch the other way."""
    return (
        torch.backends.mkldnn.is_available()
        and torch.backends.cpu.get_cpu_capability() == "AVX512"
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    )


@cache
def _linear() -> Callable[..., Tensor]:
    """Return oneDNN's product: of a (m × k) and b (n × k), with a bias (n) or None."""
    linear: Callable[..., Tensor] = torch.ops.mkldnn._linear_pointwise.default
    return linear
