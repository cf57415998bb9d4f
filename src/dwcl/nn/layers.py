"""Fully connected layers that take their start values from a given generator."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import nn

from dwcl.nn.precision import Perceptron


def linear(inputs: int, outputs: int, generator: torch.Generator) -> nn.Linear:
    """Make a linear layer with PyTorch's default distribution of weights, drawn from `generator`.

    PyTorch itself draws them from its global generator, which belongs to the caller; so does its
    default type of numbers. On the device ``meta`` (``with torch.device("meta")``) nothing is
    drawn, and no memory taken: so can networks be counted before they are made.
    """
    # Made without memory first, so that no value is drawn in vain.
    layer = nn.Linear(inputs, outputs, device="meta", dtype=torch.float32)
    if torch.get_default_device().type == "meta":
        return layer
    layer = layer.to_empty(device="cpu")
    bound = 1.0 / math.sqrt(inputs)
    with torch.no_grad():
        layer.weight.uniform_(-bound, bound, generator=generator)
        layer.bias.uniform_(-bound, bound, generator=generator)
    return layer


def perceptron(widths: Sequence[int], generator: torch.Generator) -> Perceptron:
    """Chain linear layers of the given widths, ReLU between them and a linear end."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(widths):
        layers += [linear(inputs, outputs, generator), nn.ReLU()]
    return Perceptron(*layers[:-1])


def common_generator(generators: Sequence[torch.Generator]) -> torch.Generator:
    """Make a generator for layers that views share out of those of the views, in any order."""
    # On the processor even where networks are laid out on the device ``meta``.
    seeds = [int(torch.randint(2**63 - 1, (), generator=g, device="cpu")) for g in generators]
    return torch.Generator().manual_seed(functools.reduce(operator.xor, seeds))
