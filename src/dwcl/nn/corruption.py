"""What is done to samples so that an auto-encoder has more to learn than to copy them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch
from torch import Tensor

Corruption: TypeAlias = Callable[[Sequence[Tensor]], list[Tensor]]
"""From the views of a batch (b × d_v each) to copies with something amiss."""


def with_noise(x: Tensor, *, deviation: float, generator: torch.Generator) -> Tensor:
    """Add independent normal noise to every entry of a batch (b × d)."""
    noise = torch.randn(x.shape, generator=generator, dtype=x.dtype)
    return torch.add(x, noise.to(x.device), alpha=deviation)


def with_zeros(x: Tensor, *, share: float, generator: torch.Generator) -> Tensor:
    """Put a share of the entries of a batch (b × d), rounded down, to zero wherever they are.

    Not so many in each row: one may lose more than another. What is left is not made up for it.
    """
    hidden = torch.randperm(x.numel(), generator=generator)[: int(share * x.numel())]
    return x.flatten().index_fill(0, hidden.to(x.device), 0.0).view_as(x)
