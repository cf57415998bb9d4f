"""Fully connected layers that take their start values from a given generator."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, TypeAlias

import torch
from torch import nn

from dwcl.nn.precision import Perceptron
from dwcl.streams import RandomStreams

StartValues: TypeAlias = Literal["uniform", "he-normal"]
"""How weights begin: evenly within ±1/√inputs, or normal with the variance 2/inputs."""


def linear(
    inputs: int,
    outputs: int,
    generator: torch.Generator,
    *,
    bias: bool = True,
    start: StartValues = "uniform",
) -> nn.Linear:
    """Make a linear layer with PyTorch's default distribution of weights, drawn from `generator`.

    Weights can have another one, biases never. PyTorch itself draws them from its global generator,
    which belongs to the caller; so does its default type of numbers. On the device ``meta`` (``with
    torch.device("meta")``) nothing is drawn, and no memory taken: so can networks be counted before
    they are made.
    """
    # Made without memory first, so that no value is drawn in vain.
    layer = nn.Linear(inputs, outputs, bias=bias, device="meta", dtype=torch.float32)
    if torch.get_default_device().type == "meta":
        return layer
    layer = layer.to_empty(device="cpu")
    bound = 1.0 / math.sqrt(inputs)
    with torch.no_grad():
        for parameter in layer.parameters():  # the weight, and then the bias
            if start == "he-normal" and parameter is layer.weight:
                parameter.normal_(0.0, math.sqrt(2.0 / inputs), generator=generator)
            else:
                parameter.uniform_(-bound, bound, generator=generator)
    return layer


def perceptron(
    widths: Sequence[int],
    generator: torch.Generator,
    *,
    bias: bool = True,
    start: StartValues = "uniform",
) -> Perceptron:
    """Chain linear layers of the given widths, ReLU between them and a linear end."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(widths):
        layers += [linear(inputs, outputs, generator, bias=bias, start=start), nn.ReLU()]
    return Perceptron(*layers[:-1])


def joint_generator(generators: Sequence[torch.Generator]) -> torch.Generator:
    """Make the generator for what views share, out of theirs; their order has no influence.

    Nor has what was drawn from them, and it repeats the numbers of none: of a single view neither.
    """
    seeds = (generator.initial_seed() for generator in generators)
    return RandomStreams(sum(seeds)).torch("joint")
