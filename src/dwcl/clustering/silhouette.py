"""Silhouettes by blocks of matrix products, never with all distances at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from dwcl.clustering._arrays import (
    as_points,
    exact_products,
    row_squares,
    standard_position,
)
from dwcl.clustering.tables import Table
from dwcl.errors import DataError, SettingError
from dwcl.products import product

ROWS, COLUMNS = 512, 2048
"""Size of a block of distances: 4 MB in float32."""
ROWS_WORTH_A_CENTRE = 32
"""With fewer samples per cluster, float64 is cheaper than an origin for each cluster."""
FEW = 4
"""So many clusters are added up one by one."""
CLOSE = 2**13 * torch.finfo(torch.float32).eps
"""Squared distance, as part of a squared length, below which float32 is not trusted."""


@dataclass(frozen=True, eq=False)
class SilhouetteResult:
    """The silhouette of a clustering.

    Attributes
    ----------
    mean : float
        Mean over the samples that were looked at.
    samples : Tensor
        Coefficient of each of them, in the order of the data, in the type of the samples.
    n_used : int
        How many were looked at: all, or as many as the budget allows.
    """

    mean: float
    samples: Tensor
    n_used: int


def silhouette(
    x: Table,
    labels: Tensor,
    *,
    budget: int | None = None,
    generator: torch.Generator | None = None,
    block_rows: int = ROWS,
) -> SilhouetteResult:
    """Compute (b − a) / max(a, b) of every sample, with Euclidean distances.

    Here a is a sample's mean distance to the others of its cluster, and b the least of its mean
    distances to the other clusters. A sample alone in its cluster has 0; so has everything where
    there is only one cluster.

    Parameters
    ----------
    x : Tensor or Table, n × d
        Samples, float32 or float64, on any device that knows float64; of a table that is not in
        memory, the rows within the budget are asked for.
    labels : Tensor of n
        Clusters by whole numbers. Numbers may be missing.
    budget : int, optional
        With more samples than this, a random choice of so many stands for all.
    generator : torch.Generator, optional
        For that choice, on the CPU.
    block_rows : int
        Rows of a block of distances.
    """
    n = len(x)
    _check_labels(labels, n)
    if block_rows < 1:
        raise SettingError(f"block_rows = {block_rows}; a block has at least one row.")
    if budget is not None and n > budget:
        chosen = _choose(n, budget, generator)
        points, labels = as_points(x[chosen]), labels[chosen.to(labels.device)]
    else:
        points = as_points(x[:])
    _, labels, sizes = labels.to(points.device).unique(return_inverse=True, return_counts=True)
    if len(sizes) == 1:
        return SilhouetteResult(0.0, torch.zeros_like(points[:, 0]), len(points))
    order = labels.argsort(stable=True)
    with exact_products(points.device):
        placed, _, _ = standard_position(points[order])
        coefficients = _coefficients(_distance_sums(placed, sizes, block_rows), sizes)
    samples = torch.empty_like(coefficients)
    samples[order] = coefficients
    return SilhouetteResult(float(samples.mean()), samples.to(points.dtype), len(points))


def _check_labels(labels: Tensor, n: int) -> None:
    if labels.is_floating_point() or labels.is_complex():
        raise DataError(f"The labels have type {labels.dtype}; whole numbers are expected.")
    if labels.shape != (n,):
        raise DataError(
            f"The labels have shape {tuple(labels.shape)}, but there are {n} samples; "
            f"one label per sample is expected, shape ({n},)."
        )


def _choose(n: int, budget: int, generator: torch.Generator | None) -> Tensor:
    """Draw the rows that stand for all, in their order."""
    if budget < 1:
        raise SettingError(f"budget = {budget}; at least one sample must be looked at.")
    if generator is None:
        raise SettingError(
            f"{n} samples are more than the budget of {budget}, and no generator was given to "
            "choose among them. Give a torch.Generator, or no budget."
        )
    return torch.randperm(n, generator=generator)[:budget].sort().values


def _coefficients(sums: Tensor, sizes: Tensor) -> Tensor:
    """Silhouettes from the sums of distances (n × k, rows by cluster) and the clusters' sizes."""
    own = torch.repeat_interleave(sizes)
    a = sums.gather(1, own[:, None]).squeeze(1) / (sizes[own] - 1).clamp(min=1)
    b = (sums / sizes).scatter_(1, own[:, None], torch.inf).amin(1)
    greater = torch.maximum(a, b)
    # Where both are 0 all samples coincide, and no cluster is nearer than another.
    return torch.where((sizes[own] > 1) & (greater > 0), (b - a) / greater, 0.0)


def _distance_sums(x: Tensor, sizes: Tensor, block_rows: int) -> Tensor:
    """Sum the distances from each sample to the members of each cluster (n × k, float64).

    The rows of x come sorted by cluster. For the rows of a cluster, its mean is the origin: then
    |x|² + |y|² − 2xy loses no more digits than the spread of the cluster, which bounds a from
    below, or the distance at hand explains. Every pair of blocks is visited once, for both sides.
    """
    n, k = len(x), len(sizes)
    own = torch.repeat_interleave(sizes)
    groups = [0, *sizes.cumsum(0).tolist()]
    if n < ROWS_WORTH_A_CENTRE * k:
        x, groups = x.double(), [0, n]
    sums = torch.zeros((n, k), dtype=torch.float64, device=x.device)
    for start, stop in pairwise(groups):
        centred = _Centred(x, x[start:stop].mean(0), start)
        for row in range(start, stop, block_rows):
            rows = slice(row, min(row + block_rows, stop))
            for columns in _columns(rows, n):
                distances = centred.distances(rows, columns)
                _add_by_cluster(sums[rows], distances, own[columns])
                beyond = slice(max(columns.start, rows.stop), columns.stop)
                others = distances[:, beyond.start - columns.start :]
                _add_by_cluster(sums[beyond], others.T, own[rows])
    return sums


def _columns(rows: slice, n: int) -> Iterator[slice]:
    """Blocks of columns from the first of the rows to the last; the diagonal is in the first."""
    width = max(COLUMNS, rows.stop - rows.start)
    for start in range(rows.start, n, width):
        yield slice(start, min(start + width, n))


class _Centred:
    """Samples from the first of some rows on, around a centre, and their distances by blocks.

    |x|² + |y|² − 2xy is one product of [x, |x|², 1] and [−2y, 1, |y|²]: the squares cost two more
    terms of each sum, where adding them to the block would take two more passes over it.
    """

    def __init__(self, x: Tensor, centre: Tensor, start: int) -> None:
        n, d = x.shape
        self._start = start
        self._left = x.new_empty(n - start, d + 2)
        points = torch.sub(x[start:], centre, out=self._left[:, :d])
        self._squares = row_squares(points)
        self._left[:, d] = self._squares
        self._left[:, d + 1] = 1
        self._right = self._left.clone()
        self._right[:, :d].mul_(-2)
        self._right[:, d:] = self._left[:, d:].flip(1)

    def distances(self, rows: slice, columns: slice) -> Tensor:
        """Return a block (b × m), in float64 for rows that have a too close neighbour in it."""
        left, squares = self._at(self._left, rows), self._at(self._squares, rows)
        right = self._at(self._right, columns)
        distances = product(left, right.T)
        on_diagonal = rows.start == columns.start
        if on_diagonal:
            distances.fill_diagonal_(torch.inf)  # a sample is not a close neighbour of itself
        close = distances.amin(1) < CLOSE * squares
        any_close = bool(close.any())
        if any_close:  # else nothing is below 0 either
            distances.clamp_(min=0)
        distances.sqrt_()
        if any_close and distances.dtype == torch.float32:
            points = self._at(self._left, columns)[:, :-2]
            distances[close] = _precise_distances(left[close, :-2], points)
        return distances.fill_diagonal_(0) if on_diagonal else distances

    def _at(self, values: Tensor, rows: slice) -> Tensor:
        return values[rows.start - self._start : rows.stop - self._start]


def _precise_distances(left: Tensor, right: Tensor) -> Tensor:
    left, right = left.double(), right.double()
    squared = torch.addmm(right.square().sum(1), left, right.T, alpha=-2)
    squared.add_(left.square().sum(1, keepdim=True))
    return squared.clamp_(min=0).sqrt_().float()


def _add_by_cluster(sums: Tensor, distances: Tensor, clusters: Tensor) -> None:
    """Add the distances (b × m) to m samples, sorted by cluster, to the sums (b × k) in place."""
    if len(clusters) == 0 or len(distances) == 0:
        return
    first, last = int(clusters[0]), int(clusters[-1])
    if last - first < FEW:
        # Few clusters lie side by side: to add up each is faster than a product so narrow.
        ends = torch.searchsorted(clusters, torch.arange(first, last + 1), right=True).tolist()
        for cluster, (start, stop) in enumerate(pairwise([0, *ends]), first):
            sums[:, cluster] += distances[:, start:stop].sum(1)
    else:
        members = one_hot(clusters - first, last - first + 1).to(distances.dtype)
        sums[:, first : last + 1] += product(distances, members)
