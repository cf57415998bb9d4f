"""k-means of tables that are too large to be worked on as a whole: by mini-batches of rows."""

from __future__ import annotations

import torch
from torch import Tensor

from dwcl.clustering._arrays import as_points, exact_products, row_blocks
from dwcl.clustering.distances import nearest_centres
from dwcl.clustering.kmeans import KMeansResult, check_settings, kmeans, order_of_appearance
from dwcl.clustering.lloyd import Problem, assign_and_sum
from dwcl.clustering.tables import Table, nbytes

ROWS, ENTRIES = 2**13, 2**22
"""Rows and entries of a mini-batch at most: 16 MB in float32, and copies of that."""
SAMPLE_ROWS = 2**15
SAMPLE_ROWS_PER_CLUSTER = 256
"""So many rows, the greater of both, choose the first centres; less if the budget is small."""
FEWEST_ROWS = 2**8
"""So many there are whatever the budget, and 8 for each cluster: fewer would be no likeness."""
MAX_PASSES = 20


def cluster(
    x: Table, n_clusters: int, *, n_init: int, generator: torch.Generator, budget: int | None
) -> KMeansResult:
    """k-means of a table: on all of it at once up to a budget in bytes, else by mini-batches."""
    if budget is None or nbytes(x) <= budget:
        return kmeans(x[:], n_clusters, n_init=n_init, generator=generator)
    return minibatch_kmeans(x, n_clusters, n_init=n_init, generator=generator, budget=budget)


def minibatch_kmeans(
    x: Table,
    n_clusters: int,
    *,
    n_init: int = 10,
    max_passes: int = MAX_PASSES,
    tol: float = 1e-4,
    generator: torch.Generator,
    budget: int | None = None,
) -> KMeansResult:
    """Partition the rows of a table of which no more than a sample is held in memory.

    1. :func:`~dwcl.clustering.kmeans.kmeans`, with all its starts, on a random sample of rows.
    2. Passes over all rows by mini-batches, in their order. Sums and counts of a whole pass move
       the centres, so that a pass is one exact iteration of Lloyd's and the inertia never rises:
       centres that move after each mini-batch would never come to rest. It ends when they do,
       with one more pass in float64.

    Parameters
    ----------
    x : Table, n × d
        Features, in memory or on the disk.
    n_clusters, n_init, tol
        As for :func:`~dwcl.clustering.kmeans.kmeans`.
    max_passes : int
        Bound on the passes.
    generator : torch.Generator
        The only source of randomness, on the CPU.
    budget : int, optional
        Bytes of a table that may be worked on as a whole: the sample takes a quarter of them at
        most, as its rows are gathered and joined before they are worked on.

    Returns
    -------
    KMeansResult
        As :func:`~dwcl.clustering.kmeans.kmeans` gives it.
    """
    n = len(x)
    check_settings(n, n_clusters, n_init, max_passes, tol)
    enough = sample_size(n_clusters, int(x.shape[1]), budget)
    if n <= enough:
        return kmeans(x[:], n_clusters, n_init=n_init, tol=tol, generator=generator)
    rows = torch.randperm(n, generator=generator)[:enough].sort().values
    first = kmeans(x[rows], n_clusters, n_init=n_init, tol=tol, generator=generator)
    centres = first.centres.double()
    n_passes, at_rest = 0, False
    with exact_products(centres.device):
        while not at_rest and n_passes < max_passes:
            moved, variance = _pass(x, centres)
            at_rest = float((moved - centres).square().sum()) <= tol * variance
            centres = moved
            n_passes += 1
        centres, _ = _pass(x, centres, torch.float64)  # for the digits that single sums lose
        labels, inertia, centres = _settle(x, centres.to(first.centres.dtype))
    return KMeansResult(labels, centres, inertia, first.n_iter + n_passes + 1)


def sample_size(n_clusters: int, width: int, budget: int | None) -> int:
    """Tell how many rows of a table choose the first centres."""
    enough = max(SAMPLE_ROWS, SAMPLE_ROWS_PER_CLUSTER * n_clusters)
    if budget is None:
        return enough
    return min(enough, max(FEWEST_ROWS, 8 * n_clusters, budget // (16 * width)))


def _pass(x: Table, centres: Tensor, dtype: torch.dtype = torch.float32) -> tuple[Tensor, float]:
    """Return the means of the samples nearest to each centre, and the mean variance of a feature.

    A centre to which no sample is nearest stays where it is. `dtype` is that of the sums.
    """
    origin = centres.mean(0)
    targets = (centres - origin).to(dtype)[None]
    sums, counts = torch.zeros_like(centres), torch.zeros_like(centres[:, :1])
    total, squares = torch.zeros_like(origin), 0.0
    for block in row_blocks(len(x), batch_rows(x)):
        points = (as_points(x[block]) - origin).to(dtype)
        of_block, count, _ = assign_and_sum(Problem(points, max_iter=1, tol=0.0), targets)
        sums += of_block[0]
        counts += count[0][:, None]
        total += points.sum(0, dtype=torch.float64)
        squares += float(torch.linalg.vector_norm(points, dtype=torch.float64)) ** 2
    means = torch.where(counts > 0, sums / counts.clamp(min=1) + origin, centres)
    variance = (squares - float(total.square().sum()) / len(x)) / (len(x) * len(origin))
    return means, variance


def batch_rows(x: Table) -> int:
    """Return the rows of a mini-batch: fewer where they are wide."""
    return min(ROWS, max(256, ENTRIES // int(x.shape[1])))


def _settle(x: Table, centres: Tensor) -> tuple[Tensor, float, Tensor]:
    """Renumber the clusters as they appear; return labels (n), inertia and centres that match."""
    labels, _ = _assign(x, centres)
    order = order_of_appearance(labels, len(centres))
    centres = centres[order]
    centres[int(labels.unique().numel()) :] = centres[0]
    labels, inertia = _assign(x, centres)
    return labels, inertia, centres


def _assign(x: Table, centres: Tensor) -> tuple[Tensor, float]:
    labels, inertia = [], 0.0
    for block in row_blocks(len(x), batch_rows(x)):
        found = nearest_centres(as_points(x[block]), centres)
        labels.append(found.labels)
        inertia += float(found.distances.double().square().sum())
    return torch.cat(labels), inertia
