"""How far the clusters found in two views agree."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def cmi(labels_a: Tensor, labels_b: Tensor) -> float:
    """Mutual information of two clusterings, normalised: 2·I(a; b) / (H(a) + H(b)).

    0 when neither tells anything of the other, 1 when they are the same up to names. Two
    clusterings of a single cluster each are the same, so 1.

    Parameters
    ----------
    labels_a, labels_b : Tensor of n
        Clusters by whole numbers from 0.
    """
    table = torch.zeros(int(labels_a.max()) + 1, int(labels_b.max()) + 1, dtype=torch.float64)
    index = (labels_a.cpu(), labels_b.cpu())
    table.index_put_(index, torch.ones((), dtype=torch.float64), accumulate=True)
    n = len(labels_a)
    entropy_a, entropy_b = _entropy(table.sum(dim=1) / n), _entropy(table.sum(dim=0) / n)
    if entropy_a + entropy_b == 0:
        return 1.0
    information = entropy_a + entropy_b - _entropy(table / n)
    # Rounding may lead a hair's breadth out of the range that the definition guarantees.
    return min(1.0, max(0.0, 2 * information / (entropy_a + entropy_b)))


def _entropy(probabilities: Tensor) -> float:
    # Rounded once, so that neither the order of the views nor names of clusters change a bit.
    return -math.fsum(torch.special.xlogy(probabilities, probabilities).flatten().tolist())
