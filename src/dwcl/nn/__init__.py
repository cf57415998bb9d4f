"""Networks: the auto-encoder of a view, its head, the set of them for several views, fusion."""

from dwcl.nn.autoencoder import AutoEncoder, AutoEncoders, ViewNetworks
from dwcl.nn.chain import steps_in_place
from dwcl.nn.fusion import WeightedMean
from dwcl.nn.layers import common_generator, linear, perceptron
from dwcl.nn.levels import LevelNetworks
from dwcl.nn.norm import BatchNorm, NormPerceptron
from dwcl.nn.precision import (
    Perceptron,
    Precision,
    PrecisionChoice,
    resolve_precision,
    set_precision,
)

__all__ = [
    "AutoEncoder",
    "AutoEncoders",
    "BatchNorm",
    "LevelNetworks",
    "NormPerceptron",
    "Perceptron",
    "Precision",
    "PrecisionChoice",
    "ViewNetworks",
    "WeightedMean",
    "common_generator",
    "linear",
    "perceptron",
    "resolve_precision",
    "set_precision",
    "steps_in_place",
]
