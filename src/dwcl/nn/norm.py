"""Layers that normalise over the batch."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from dwcl.nn.layers import perceptron


class BatchNorm(nn.BatchNorm1d):
    """Batch normalisation that puts up with a batch of one.

    A single sample has no variance: it is normalised by the running figures, which it leaves as
    they are, as in evaluation mode.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Normalise a batch (b × d)."""
        if not self.training or len(x) > 1:
            normalised: Tensor = super().forward(x)
            return normalised
        return nn.functional.batch_norm(
            x, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps
        )


class NormPerceptron(nn.Sequential):
    """Linear layers, each with batch normalisation and ReLU behind it.

    Parameters
    ----------
    widths : sequence of int
        Of the input and of the layers.
    generator : torch.Generator
        For the start values.
    plain_end : bool
        Whether the last layer stays linear.
    """

    def __init__(
        self, widths: Sequence[int], generator: torch.Generator, *, plain_end: bool
    ) -> None:
        layers: list[nn.Module] = []
        for inputs, outputs in pairwise(widths):
            # A chain of its own, so that it follows the precision of the run.
            layers += [perceptron((inputs, outputs), generator), BatchNorm(outputs), nn.ReLU()]
        super().__init__(*(layers[:-2] if plain_end else layers))
