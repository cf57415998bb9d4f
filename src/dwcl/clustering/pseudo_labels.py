"""Labels that networks learn from, found in their own features."""

from __future__ import annotations

import torch
from torch import Tensor

from dwcl.clustering._arrays import as_points
from dwcl.clustering.kmeans import kmeans


def pseudo_labels(
    features: Tensor, n_clusters: int, *, n_init: int, generator: torch.Generator
) -> Tensor:
    """Cluster features (n × d) by k-means once each of them reaches from 0 to 1; labels (n, int64).

    Coordinates of unit rows that vary little thus count as much as others. Which label a cluster
    has means nothing; :func:`dwcl.clustering.matching.align_labels` brings it in line with outputs.
    """
    return kmeans(unit_range(features), n_clusters, n_init=n_init, generator=generator).labels


def unit_range(x: Tensor) -> Tensor:
    """Scale each column of x (n × d) to the range from 0 to 1; a constant one becomes 0."""
    points = as_points(x)
    lowest, highest = points.aminmax(dim=0)
    span = highest - lowest
    return (points - lowest) / torch.where(span > 0, span, 1)
