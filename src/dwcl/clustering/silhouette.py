"""Silhouettes by blocks of matrix products, never with all distances at once."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

_ROWS = 1024
_COLUMNS = 4096


@dataclass(frozen=True)
class SilhouetteResult:
    """The silhouette of a clustering.

    Attributes
    ----------
    mean : float
        Mean over the samples that were looked at.
    samples : Tensor
        Each of them, in the order of the data (of the sample of it, above a budget).
    n_used : int
        How many were looked at.
    """

    mean: float
    samples: Tensor
    n_used: int


def silhouette(
    x: Tensor,
    labels: Tensor,
    *,
    budget: int | None = None,
    generator: torch.Generator | None = None,
) -> SilhouetteResult:
    """Compute (b − a) / max(a, b) of every sample, with Euclidean distances.

    Parameters
    ----------
    x : Tensor, n × d
        Samples.
    labels : Tensor of n
        Clusters by whole numbers from 0.
    budget : int, optional
        With more samples than this, a random sample of so many stands for all.
    generator : torch.Generator, optional
        For that sample.
    """
    if budget is not None and len(x) > budget:
        chosen = torch.randperm(len(x), generator=generator)[:budget].sort().values
        x, labels = x[chosen.to(x.device)], labels[chosen.to(labels.device)]
    _, labels = labels.unique(return_inverse=True)
    sizes = labels.bincount()  # k
    if len(sizes) < 2:
        zeros = x.new_zeros(len(x))
        return SilhouetteResult(0.0, zeros, len(x))
    order = labels.argsort(stable=True)
    sums = _distance_sums(x[order], sizes)  # n × k, rows by cluster
    own = labels[order]
    a = sums.gather(1, own[:, None]).squeeze(1) / (sizes[own] - 1).clamp_min(1)
    others = sums / sizes
    others.scatter_(1, own[:, None], torch.inf)
    b = others.min(dim=1).values
    values = torch.where(sizes[own] > 1, (b - a) / torch.maximum(a, b), 0.0).nan_to_num_(0.0)
    samples = torch.empty_like(values)
    samples[order] = values
    return SilhouetteResult(float(samples.double().mean()), samples.to(x.dtype), len(x))


def _distance_sums(x: Tensor, sizes: Tensor) -> Tensor:
    """Sum the distances from each sample to the members of each cluster, n × k.

    The rows of x come sorted by cluster. For the rows of a cluster, everything is recentred on
    its mean: |x|² + |y|² − 2xy then loses no more digits than the spread of the cluster, or the
    distance at hand, explains.
    """
    n, k = len(x), len(sizes)
    bounds = [0, *sizes.cumsum(0).tolist()]
    member = torch.zeros(n, k, dtype=x.dtype, device=x.device)  # one-hot
    member[torch.arange(n, device=x.device), torch.repeat_interleave(sizes)] = 1
    sums = torch.zeros(n, k, dtype=torch.float64, device=x.device)
    for start, stop in zip(bounds, bounds[1:], strict=False):
        centred = x - x[start:stop].mean(dim=0)
        squares = centred.square().sum(dim=1)
        for row in range(start, stop, _ROWS):
            rows = slice(row, min(row + _ROWS, stop))
            for column in range(0, n, _COLUMNS):
                columns = slice(column, column + _COLUMNS)
                distances = torch.addmm(
                    squares[None, columns], centred[rows], centred[columns].T, alpha=-2
                )
                distances.add_(squares[rows, None]).clamp_min_(0).sqrt_()
                _clear_diagonal(distances, row, column)
                sums[rows] += distances @ member[columns]
    return sums


def _clear_diagonal(distances: Tensor, row: int, column: int) -> None:
    """Set the distance of a sample to itself to 0, where rounding left a trace."""
    offset = row - column
    if -len(distances) < offset < distances.shape[1]:
        distances.diagonal(offset).zero_()
