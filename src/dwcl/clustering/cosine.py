r"""k-means by angles: clusters of small cosine distance to the plain means of their samples.

The distance of a sample to a centre is :math:`1 - \cos(x, c)`. A centre is the mean of its samples
as they are, so long ones turn it more than short ones. That is not spherical k-means, whose centres
are means of directions, and the sum of the distances need not fall from step to step.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from dwcl.clustering._arrays import (
    as_points,
    block_size,
    exact_products,
    row_blocks,
)
from dwcl.clustering.kmeans import check_settings, order_of_appearance
from dwcl.clustering.minibatch import MAX_PASSES, batch_rows, sample_size
from dwcl.clustering.seeding import greedy_plus_plus
from dwcl.clustering.tables import Table, nbytes
from dwcl.errors import DataError

COPIES = 4
"""In float64, and once more as directions, a table in float32 takes so many times its own size."""


@dataclass(frozen=True, eq=False)
class CosineKMeansResult:
    """Clusters found by :func:`cosine_kmeans`.

    Attributes
    ----------
    labels : Tensor, n
        Cluster of each sample (int64), numbered in the order in which they appear in the data.
    centres : Tensor, k × d
        Centres that the labels follow from, in the type of the samples: means of the clusters of
        the step before. One that had no samples is zero, so at a distance of 1 from everything.
    distance : float
        Sum of the cosine distances of the samples to their centres.
    n_iter : int
        Iterations of the start that won, until it was at rest.
    """

    labels: Tensor
    centres: Tensor
    distance: float
    n_iter: int


def cosine_kmeans(
    x: Tensor,
    n_clusters: int,
    *,
    n_init: int = 10,
    max_iter: int = 300,
    tol: float = 1e-4,
    generator: torch.Generator,
    block_rows: int | None = None,
) -> CosineKMeansResult:
    """Partition samples by their angles to the means of the clusters.

    Of all iterations of all starts the one with the smallest sum of distances is the result. The
    starts advance together, in float64.

    Parameters
    ----------
    x : Tensor, n × d
        Samples, float32 or float64, of any length.
    n_clusters : int
        Number of clusters k, at most n. Some may be empty in the end.
    n_init : int
        Number of greedy k-means++ starts, by cosine distance.
    max_iter : int
        Bound on the iterations of a start.
    tol : float
        A start is at rest when no label changes, or when the cosine distances between its centres
        before and after a step add up to at most this part of the mean variance of the features.
    generator : torch.Generator
        The only source of randomness, on the CPU.
    block_rows : int, optional
        Rows that are worked on at once; by default as many as suit the cache.

    Returns
    -------
    CosineKMeansResult
        Its labels are the positions of the least of :func:`cosine_distances` to its centres.
    """
    points = as_points(x)
    check_settings(len(points), n_clusters, n_init, max_iter, tol)
    with exact_products(points.device):
        wide = points.double()
        directions = functional.normalize(wide, dim=1)
        # Of directions, squared Euclidean distances are twice the cosine distances.
        starts = greedy_plus_plus(directions, n_clusters, n_init, generator, block_rows)
        enough = tol * float(wide.var(0, correction=0).mean())
        race = _Race(wide, directions, block_rows)
        best, n_iter = race.run(starts, max_iter, enough)
        labels, centres = _settle(points, best.to(points.dtype), block_rows)
        distance = _total_distance(points, centres, block_rows)
    return CosineKMeansResult(labels, centres, distance, n_iter)


def cosine_cluster(
    x: Table,
    n_clusters: int,
    *,
    n_init: int = 10,
    max_passes: int = MAX_PASSES,
    tol: float = 1e-4,
    generator: torch.Generator,
    budget: int,
) -> CosineKMeansResult:
    """Partition the rows of a table by angles, all of it at once up to a budget.

    Of a larger table a random sample of rows chooses the centres, with all starts; they are then
    moved by passes over all rows, in blocks, each of which is an iteration of
    :func:`cosine_kmeans`. Of these the best is the result.

    Parameters
    ----------
    x : Table, n × d
        Samples, in memory or on the disk.
    n_clusters, n_init, tol, generator
        As for :func:`cosine_kmeans`.
    max_passes : int
        Bound on the passes.
    budget : int
        Bytes of a table that may be worked on as a whole, by copies of twice its size.
    """
    # The table and its copies take as much as three times the budget.
    bearable = 3 * budget // (1 + COPIES)
    if nbytes(x) <= bearable:
        return cosine_kmeans(x[:], n_clusters, n_init=n_init, tol=tol, generator=generator)
    check_settings(len(x), n_clusters, n_init, max_passes, tol)
    rows = torch.randperm(len(x), generator=generator)
    rows = rows[: sample_size(n_clusters, int(x.shape[1]), bearable)].sort().values
    sample = as_points(x[rows])
    start = cosine_kmeans(sample, n_clusters, n_init=n_init, tol=tol, generator=generator)
    enough = tol * float(sample.double().var(0, correction=0).mean())
    with exact_products(sample.device):
        best, n_iter = _TableRace(x).run(start.centres.double()[None], max_passes, enough)
        labels, centres = _settle(x, best.to(sample.dtype), None)
        distance = _total_distance(x, centres, None)
    return CosineKMeansResult(labels, centres, distance, start.n_iter + n_iter)


def cosine_distances(x: Tensor, centres: Tensor, *, block_rows: int | None = None) -> Tensor:
    """Cosine distances (n × k) of samples to centres, from 0 to 2, in the type of the samples.

    A sample or a centre at the origin has the distance 1 to everything.

    Parameters
    ----------
    x : Tensor, n × d
        Samples, float32 or float64.
    centres : Tensor, k × d
        Centres.
    block_rows : int, optional
        Rows that are worked on at once; by default as many as suit the cache.
    """
    points, centres = as_points(x), as_points(centres, "centres")
    if points.shape[1] != centres.shape[1]:
        raise DataError(
            f"The samples have {points.shape[1]} features and the centres {centres.shape[1]}; "
            "the same features in the same order are expected in both."
        )
    distances = points.new_empty(len(points), len(centres))
    with exact_products(points.device):
        # Equal centres share one column: rounding must not send equal samples to different ones.
        targets, column = torch.unique(
            functional.normalize(centres.double(), dim=1), dim=0, return_inverse=True
        )
        for block in row_blocks(len(points), block_size(max(targets.shape), block_rows)):
            cosines = functional.normalize(points[block].double(), dim=1) @ targets.T
            distances[block] = cosines.neg_().add_(1).clamp_(0, 2)[:, column].to(points.dtype)
    return distances


class _Race:
    """Iterates several sets of centres, and keeps the best that each has come by."""

    def __init__(self, x: Table, directions: Tensor, block_rows: int | None) -> None:
        self._x, self._directions, self._block_rows = x, directions, block_rows

    def run(self, centres: Tensor, max_iter: int, enough: float) -> tuple[Tensor, int]:
        """Return the best centres (k × d) of R sets (R × k × d) and the steps that they took."""
        n_sets, device = len(centres), centres.device
        before = torch.full((n_sets, len(self._x)), -1, dtype=torch.int64, device=device)
        best = centres.clone()
        least = torch.full((n_sets,), torch.inf, dtype=torch.float64, device=device)
        steps = torch.zeros(n_sets, dtype=torch.int64, device=device)
        moving = torch.arange(n_sets, device=device)
        for _ in range(max_iter):
            labels, after, distance = self._step(centres)
            better = distance < least[moving]
            best[moving[better]], least[moving[better]] = centres[better], distance[better]
            steps[moving] += 1
            shift = 1 - functional.cosine_similarity(centres, after, dim=2)  # R × k
            changed = (labels != before).any(1) & (shift.sum(1) > enough)
            # A set at rest leaves the batch.
            moving, before, centres = moving[changed], labels[changed], after[changed]
            if len(moving) == 0:
                break
        winner = int(least.argmin())
        return best[winner], int(steps[winner])

    def _rows(self, block: slice) -> tuple[Tensor, Tensor]:
        """Return the samples of a block and their directions (b × d each, float64)."""
        return self._x[block], self._directions[block]

    def _step(self, centres: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Assign (R × n), move the centres to the means (R × k × d), add up the distances (R)."""
        n_sets, k, d = centres.shape
        targets = functional.normalize(centres, dim=2).view(-1, d)
        sums, counts = torch.zeros_like(targets), torch.zeros_like(targets[:, :1])
        cosine_sum = centres.new_zeros(n_sets)
        labels = []
        for block in row_blocks(len(self._x), block_size(len(targets), self._block_rows)):
            points, directions = self._rows(block)
            cosines = (targets @ directions.T).view(n_sets, k, -1)
            most, nearest = cosines.max(1, keepdim=True)
            cosine_sum += most.sum((1, 2))
            labels.append(nearest[:, 0])
            members = cosines.zero_().scatter_(1, nearest, 1.0).view(n_sets * k, -1)
            sums.addmm_(members, points)
            counts += members.sum(1, keepdim=True)
        means = sums / counts.clamp(min=1)  # zero for an empty cluster
        return torch.cat(labels, dim=1), means.view_as(centres), len(self._x) - cosine_sum


class _TableRace(_Race):
    """The same for a table of which only a block at a time is in memory."""

    def __init__(self, x: Table) -> None:
        super().__init__(x, torch.empty(0), batch_rows(x))

    def _rows(self, block: slice) -> tuple[Tensor, Tensor]:
        points = as_points(self._x[block]).double()
        return points, functional.normalize(points, dim=1)


def _settle(x: Table, centres: Tensor, block_rows: int | None) -> tuple[Tensor, Tensor]:
    """Put the clusters in the order of their appearance: labels (n) and centres that match."""
    k = len(centres)
    labels = _labels(x, centres, block_rows)
    # Renumbering can move a sample that is equally near to two centres, since the first one wins.
    for _ in range(k + 1):
        order = order_of_appearance(labels, k)
        if torch.equal(order, torch.arange(k, device=order.device)):
            break
        centres = centres[order]
        labels = _labels(x, centres, block_rows)
    return labels, centres


def _labels(x: Table, centres: Tensor, block_rows: int | None) -> Tensor:
    """Find the nearest centre of each sample (n)."""
    blocks = (as_points(x[block]) for block in row_blocks(len(x), batch_rows(x)))
    distances = (cosine_distances(b, centres, block_rows=block_rows) for b in blocks)
    return torch.cat([block.argmin(1) for block in distances])


def _total_distance(x: Table, centres: Tensor, block_rows: int | None) -> float:
    """Sum of the distances of the samples to their nearest centres, in float64."""
    targets = centres.double()
    blocks = (as_points(x[block]).double() for block in row_blocks(len(x), batch_rows(x)))
    distances = (cosine_distances(b, targets, block_rows=block_rows) for b in blocks)
    return sum(float(block.amin(1).sum()) for block in distances)
