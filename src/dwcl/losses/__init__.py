"""Losses: pure functions of tensors that return unreduced values, one file per family."""

from dwcl.losses.calibration import calibration, label_graphs, survivors
from dwcl.losses.clusterwise import (
    Negatives,
    Similarity,
    balanced_contrast,
    cluster_contrast,
    negative_entropy,
)
from dwcl.losses.consensus import centre_contrast, neighbour_contrast
from dwcl.losses.damped import damped_infonce
from dwcl.losses.divergence import deep_divergence
from dwcl.losses.infonce import infonce
from dwcl.losses.mutual_information import mutual_information_loss
from dwcl.losses.pseudo_labels import pseudo_label_loss
from dwcl.losses.reconstruction import reconstruction
from dwcl.losses.rince import rince
from dwcl.losses.spectral import spectral

__all__ = [
    "Negatives",
    "Similarity",
    "balanced_contrast",
    "calibration",
    "centre_contrast",
    "cluster_contrast",
    "damped_infonce",
    "deep_divergence",
    "infonce",
    "label_graphs",
    "mutual_information_loss",
    "negative_entropy",
    "neighbour_contrast",
    "pseudo_label_loss",
    "reconstruction",
    "rince",
    "spectral",
    "survivors",
]
