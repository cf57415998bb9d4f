"""k-means: many starts at once, as products of matrices, by blocks of rows."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from dwcl.clustering._arrays import (
    as_points,
    block_size,
    exact_products,
    row_blocks,
    standard_position,
)
from dwcl.clustering.distances import Assignment, assign, centre_distances, nearest_centres
from dwcl.clustering.lloyd import Problem, lloyd, tournament
from dwcl.clustering.seeding import greedy_plus_plus
from dwcl.clustering.swaps import improve_by_swaps
from dwcl.errors import DataError, SettingError

__all__ = ["Assignment", "KMeansResult", "assign", "centre_distances", "kmeans"]

SEARCH_ROWS = 2**12
SEARCH_ROWS_PER_CLUSTER = 64
"""So many rows, the greater of both, tell well enough which centre is better elsewhere."""


@dataclass(frozen=True, eq=False)
class KMeansResult:
    """Clusters found by :func:`kmeans`.

    Attributes
    ----------
    labels : Tensor, n
        Cluster of each sample (int64). Clusters are numbered in the order in which they appear in
        the data, so that equal partitions have equal labels.
    centres : Tensor, k × d
        Means of the clusters, in the type of the samples.
    inertia : float
        Sum of the squared distances of the samples to their centres.
    n_iter : int
        Iterations over all samples, from the start that won to the finish.
    """

    labels: Tensor
    centres: Tensor
    inertia: float
    n_iter: int


def kmeans(
    x: Tensor,
    n_clusters: int,
    *,
    n_init: int = 10,
    max_iter: int = 300,
    tol: float = 1e-4,
    generator: torch.Generator,
    block_rows: int | None = None,
) -> KMeansResult:
    """Partition samples into clusters of small squared distances to their means.

    Lloyd's algorithm ends in a local minimum, and the best of ten can still be some percent above
    the best of another ten. So the effort goes where it helps most:

    1. `n_init` greedy k-means++ starts compete; the worse half gives up early, again and again.
    2. The winner is varied, 2 × `n_init` variants at a time: a centre that is of little use moves
       to a badly served sample. The best variant wins if it is better after its own iterations;
       this ends when a few rounds gain nothing. A sample of rows stands for large data in this.
    3. The best of all is finished in float64.

    Parameters
    ----------
    x : Tensor, n × d
        Samples, float32 or float64, on any device that knows float64.
    n_clusters : int
        Number of clusters k, at most n. With fewer than k different samples some clusters are
        empty: the last ones, whose centres repeat the first one.
    n_init : int
        Number of starts, and half the number of variants in a round.
    max_iter : int
        Bound on the iterations of a start or a variant.
    tol : float
        Centres are at rest when they move, in one iteration, by at most this part of the mean
        variance of the features (sum of squares over all centres); with 0, when nothing changes.
    generator : torch.Generator
        The only source of randomness, on the CPU.
    block_rows : int, optional
        Rows that are worked on at once; by default as many as suit the cache.

    Returns
    -------
    KMeansResult
        Its labels are those of :func:`assign` for its centres.
    """
    points = as_points(x)
    check_settings(len(points), n_clusters, n_init, max_iter, tol)
    with exact_products(points.device):
        centred, shift, scale = standard_position(points)
        problem = Problem(centred, max_iter, tol, block_rows)
        starts = greedy_plus_plus(centred, n_clusters, n_init, generator, block_rows)
        first = tournament(problem, starts, to_rest=False)
        rows = _search_rows(centred, n_clusters, generator)
        search = Problem(rows, max_iter, tol, block_rows)
        varied = improve_by_swaps(search, first.centres, 2 * n_init, generator)
        best = tournament(problem, torch.stack([first.centres, varied]))
        finished, _, extra = lloyd(problem, best.centres[None].double(), max_iter)
        labels, centres = _settle(points, finished[0] * scale + shift, block_rows)
        inertia = _inertia(points, centres, labels, block_rows)
    n_iter = first.n_iter + best.n_iter + int(extra[0])
    return KMeansResult(labels, centres, inertia, n_iter)


def _search_rows(x: Tensor, n_clusters: int, generator: torch.Generator) -> Tensor:
    """Return x, or a sample of its rows where they are far more than the search for swaps needs."""
    enough = max(SEARCH_ROWS, SEARCH_ROWS_PER_CLUSTER * n_clusters)
    if len(x) <= 4 * enough:
        return x
    rows = torch.randperm(len(x), generator=generator)[:enough].sort().values
    return x[rows.to(x.device)]


def check_settings(n: int, n_clusters: int, n_init: int, max_iter: int, tol: float) -> None:
    """Refuse settings that make no sense for n samples."""
    if n_clusters < 1:
        raise SettingError(f"n_clusters = {n_clusters}; at least one cluster is expected.")
    if n_clusters > n:
        raise DataError(
            f"{n_clusters} clusters were asked of {n} samples; "
            "ask for at most as many clusters as there are samples."
        )
    if n_init < 1:
        raise SettingError(f"n_init = {n_init}; at least one start is expected.")
    if max_iter < 1:
        raise SettingError(f"max_iter = {max_iter}; at least one iteration is expected.")
    if not tol >= 0:
        raise SettingError(f"tol = {tol}; zero or a positive number is expected.")


def _settle(points: Tensor, centres: Tensor, block_rows: int | None) -> tuple[Tensor, Tensor]:
    """Bring float64 centres into the form of the result: labels (n) and centres that match."""
    k = len(centres)
    labels = nearest_centres(points, centres, block_rows).labels
    centres = _means(points, centres, labels, block_rows).to(points.dtype)
    # Renumbering can move a sample that is equally near to two centres, since the first one wins.
    # It moves towards the front, so that a few rounds end it; mostly the first one does.
    for _ in range(k):
        order = order_of_appearance(labels, k)
        centres = _repeat_first(centres[order], labels)
        labels = nearest_centres(points, centres, block_rows).labels
        if torch.equal(order_of_appearance(labels, k), torch.arange(k, device=order.device)):
            break
    centres = _repeat_first(centres, labels)
    return labels, centres


def _repeat_first(centres: Tensor, labels: Tensor) -> Tensor:
    """Let empty clusters, the last ones, repeat the first centre.

    Left where they are, a rounding away from a centre with members, they would draw these.
    """
    centres[int(labels.unique().numel()) :] = centres[0]
    return centres


def _inertia(points: Tensor, centres: Tensor, labels: Tensor, block_rows: int | None) -> float:
    """Sum of squared distances, from the differences themselves."""
    targets, total = centres.double(), 0.0
    for block in row_blocks(len(points), block_size(centres.shape[1], block_rows)):
        total += float((points[block] - targets[labels[block]]).square_().sum())
    return total


def _means(points: Tensor, centres: Tensor, labels: Tensor, block_rows: int | None) -> Tensor:
    """Return the clusters' means as corrections of near centres: exact where members are equal."""
    corrections = torch.zeros_like(centres)
    for block in row_blocks(len(points), block_size(centres.shape[1], block_rows)):
        members = labels[block]
        corrections.index_add_(0, members, points[block].double() - centres[members])
    counts = torch.bincount(labels, minlength=len(centres)).clamp_(min=1)
    return centres + corrections / counts[:, None]


def order_of_appearance(labels: Tensor, k: int) -> Tensor:
    """Old numbers of the clusters in the order of their first samples; empty clusters last."""
    n = len(labels)
    first = torch.full((k,), n, device=labels.device)
    first.scatter_reduce_(0, labels, torch.arange(n, device=labels.device), "amin")
    return first.argsort(stable=True)
