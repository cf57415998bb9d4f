"""Losses: pure functions of tensors that return unreduced values, one file per family."""

from dwcl.losses.calibration import calibration, label_graphs, survivors
from dwcl.losses.clusterwise import Negatives, Similarity, cluster_contrast, negative_entropy
from dwcl.losses.damped import damped_infonce
from dwcl.losses.infonce import infonce
from dwcl.losses.pseudo_labels import pseudo_label_loss
from dwcl.losses.reconstruction import reconstruction
from dwcl.losses.rince import rince
from dwcl.losses.spectral import spectral

__all__ = [
    "Negatives",
    "Similarity",
    "calibration",
    "cluster_contrast",
    "damped_infonce",
    "infonce",
    "label_graphs",
    "negative_entropy",
    "pseudo_label_loss",
    "reconstruction",
    "rince",
    "spectral",
    "survivors",
]
