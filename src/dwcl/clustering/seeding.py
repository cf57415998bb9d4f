"""The first centres of k-means: greedy k-means++, for several restarts at once."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from dwcl.clustering._arrays import block_size, row_blocks, row_squares
from dwcl.products import product


def greedy_plus_plus(
    x: Tensor,
    n_clusters: int,
    n_restarts: int,
    generator: torch.Generator,
    block_rows: int | None = None,
) -> Tensor:
    """Choose rows of x as first centres (R × k × d), far from each other with high probability.

    Each next centre is the best of 2 + ⌊log k⌋ candidates. A candidate is drawn with a probability
    proportional to its squared distance from the nearest centre so far; the best is the one that
    leaves the smallest sum of these distances [1]_.

    The restarts advance together, so that every step is one product of all their candidates with
    the samples. All random numbers are drawn on the CPU and in one order, whatever the device.

    References
    ----------
    .. [1] D. Arthur and S. Vassilvitskii, "k-means++: the advantages of careful seeding", 2007.
    """
    n = len(x)
    n_trials = 2 + int(math.log(n_clusters))
    first = torch.randint(n, (n_restarts,), generator=generator)
    draws = torch.rand(
        (n_clusters, n_restarts, n_trials), generator=generator, dtype=torch.float64
    ).to(x.device)
    squares = row_squares(x)
    rows = block_size(n_restarts * n_trials, block_rows)

    chosen = torch.empty((n_restarts, n_clusters), dtype=torch.int64, device=x.device)
    chosen[:, 0] = first.to(x.device)
    nearest = x.new_full((n_restarts, n), torch.inf)  # squared distance to the nearest centre
    _approach(nearest, x, squares, chosen[:, 0], rows)
    for step in range(1, n_clusters):
        candidates = draw_rows(nearest, draws[step])
        potentials = _potentials(nearest, x, squares, candidates, rows)
        winner = potentials.argmin(1, keepdim=True)
        chosen[:, step] = candidates.gather(1, winner).squeeze(1)
        _approach(nearest, x, squares, chosen[:, step], rows)
    return x[chosen]


def draw_rows(weights: Tensor, draws: Tensor) -> Tensor:
    """Choose rows (R × L) with probabilities as the weights (R × n), equal ones if all are zero.

    `draws` (R × L) are random numbers from 0 to 1 in float64.
    """
    n = weights.shape[1]
    cumulated = weights.cumsum(1, dtype=torch.float64)
    total = cumulated[:, -1:]
    # On the right of equal values stands the next row with a weight: no weightless row is drawn.
    drawn = torch.searchsorted(cumulated, draws * total, right=True)
    return torch.where(total > 0, drawn, (draws * n).long()).clamp_(max=n - 1)


def _squared_distances(x: Tensor, squares: Tensor, picks: Tensor, block: slice) -> Tensor:
    """Squared distances (m × b) of the picked rows to the rows of a block."""
    products = product(-2 * x[picks], x[block].T, squares[block])
    return products.add_(squares[picks, None]).clamp_(min=0)


def _potentials(
    nearest: Tensor, x: Tensor, squares: Tensor, candidates: Tensor, rows: int
) -> Tensor:
    """Sum of squared distances (R × L) that would remain with each candidate as a centre."""
    total = torch.zeros(candidates.shape, dtype=torch.float64, device=x.device)
    for block in row_blocks(len(x), rows):
        distances = _squared_distances(x, squares, candidates.flatten(), block)
        distances = distances.view(*candidates.shape, -1)  # R × L × b
        total += torch.minimum(distances, nearest[:, None, block], out=distances).sum(2)
    return total


def _approach(nearest: Tensor, x: Tensor, squares: Tensor, picks: Tensor, rows: int) -> None:
    """Lower `nearest` (R × n) in place by one new centre for each restart."""
    for block in row_blocks(len(x), rows):
        closer = nearest[:, block]
        torch.minimum(closer, _squared_distances(x, squares, picks, block), out=closer)
    nearest.scatter_(1, picks[:, None], 0.0)  # rounding must not let a centre be drawn again
