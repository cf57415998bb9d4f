"""One feature of a sample out of several: a mean with learnt weights."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class WeightedMean(nn.Module):
    r"""Convex combination of m tensors, :math:`\sum_i \operatorname{softmax}(a)_i \, x_i`.

    One weight per input, the same for all samples and features. All logits a start at 1/m, so the
    weights are equal at first.

    Parameters
    ----------
    inputs : int
        m.
    """

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.full((inputs,), 1 / inputs, dtype=torch.float32))

    def forward(self, xs: Sequence[Tensor]) -> Tensor:
        """Join m tensors (b × d each) to one."""
        fused: Tensor = torch.tensordot(self.weights(), torch.stack(list(xs)), dims=1)
        return fused

    def weights(self) -> Tensor:
        """Return the weights (m)."""
        return self.logits.softmax(0)
