"""Networks: auto-encoders and heads of views, fusion, and what samples are given as."""

from dwcl.nn.autoencoder import AutoEncoder, AutoEncoders, ViewNetworks
from dwcl.nn.chain import steps_in_place
from dwcl.nn.corruption import Corruption, with_noise, with_zeros
from dwcl.nn.fusion import WeightedMean
from dwcl.nn.layers import StartValues, joint_generator, linear, perceptron
from dwcl.nn.levels import LevelNetworks
from dwcl.nn.norm import BatchNorm, NormPerceptron
from dwcl.nn.precision import (
    Perceptron,
    Precision,
    PrecisionChoice,
    resolve_precision,
    set_precision,
)
from dwcl.nn.shared import SharedHeads

__all__ = [
    "AutoEncoder",
    "AutoEncoders",
    "BatchNorm",
    "Corruption",
    "LevelNetworks",
    "NormPerceptron",
    "Perceptron",
    "Precision",
    "PrecisionChoice",
    "SharedHeads",
    "StartValues",
    "ViewNetworks",
    "WeightedMean",
    "joint_generator",
    "linear",
    "perceptron",
    "resolve_precision",
    "set_precision",
    "steps_in_place",
    "with_noise",
    "with_zeros",
]
