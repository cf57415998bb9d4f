"""Who is near whom: nearest neighbours by blocks, graphs of a batch, shares among neighbours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from dwcl.clustering._arrays import (
    as_points,
    block_size,
    exact_products,
    row_blocks,
    standard_position,
)
from dwcl.clustering.distances import squared_distances
from dwcl.clustering.tables import Table, nbytes
from dwcl.errors import DataError
from dwcl.products import product

Measure: TypeAlias = Literal["euclidean", "dot"]

SPARE = 8
"""So many more candidates than neighbours are compared exactly: rounding may swap near ones."""
EXACT_ELEMENTS = 2**21
"""Entries of a block of exact comparisons."""


def nearest_neighbours(
    x: Tensor,
    n_neighbours: int,
    *,
    measure: Measure = "euclidean",
    rows: Tensor | None = None,
    among: Tensor | None = None,
    block_rows: int | None = None,
    watch: Callable[[], None] = lambda: None,
) -> Tensor:
    """Find the nearest other samples, the nearest first.

    A sample is never its own neighbour: it is left out by its position, not by its distance, so
    that a copy of it can be one. Of equally near samples the first come first; where more than a
    few are as near as the last neighbour, any of them may be taken, always the same.

    Parameters
    ----------
    x : Tensor, n × d
        Samples, float32 or float64.
    n_neighbours : int
        How many (m ≥ 0) are wanted of each.
    measure : {"euclidean", "dot"}
        Near is what has a small distance, or a great product.
    rows, among : Tensor of int64, optional
        Positions of the q samples whose neighbours are wanted, and of those that may be neighbours
        (without repeats); all, if not given.
    block_rows : int, optional
        Rows that are worked on at once; by default as many as suit the cache.
    watch : callable
        Called between blocks; it may raise an exception to break off a long search.

    Returns
    -------
    Tensor, q × m
        Positions of the neighbours (int64).
    """
    points = as_points(x)
    everyone = torch.arange(len(points), device=points.device)
    rows = everyone if rows is None else rows
    among = everyone if among is None else among.sort().values
    place = torch.full_like(everyone, -1)  # of each sample among the candidates
    place[among] = torch.arange(len(among), device=points.device)
    _check_number(n_neighbours, len(among) - int((place[rows] >= 0).any()))
    found = torch.empty((len(rows), n_neighbours), dtype=torch.int64, device=points.device)
    if found.numel() == 0:
        return found
    with exact_products(points.device):
        search = _Search(points, among, place, measure)
        for block in row_blocks(len(rows), block_size(len(among), block_rows)):
            watch()
            found[block], _ = search.nearest(rows[block], n_neighbours)
    return found


def neighbours_in_table(
    x: Table, n_neighbours: int, *, budget: int, watch: Callable[[], None] = lambda: None
) -> Tensor:
    """Find the nearest other samples in a table that need not lie in memory.

    A table that is larger than the budget is compared with itself block by block, so it is read
    about as many times as it has blocks: the number of comparisons is n² in any case.

    Parameters
    ----------
    x : Table, n × d
        Samples, in memory or on the disk.
    n_neighbours : int
        How many (m ≥ 0) are wanted of each.
    budget : int
        Bytes of a table that may be worked on as a whole, by copies of twice its size.
    watch : callable
        Called between blocks; it may raise an exception to break off a long search.

    Returns
    -------
    Tensor, n × m
        What :func:`nearest_neighbours` finds, with squared distances as measure.
    """
    if nbytes(x) <= budget:
        return nearest_neighbours(x[:], n_neighbours, watch=watch)
    _check_number(n_neighbours, len(x) - 1)
    # Two blocks, both joined, both in standard position, and the candidates once more.
    rows = max(1, 3 * budget // (7 * 4 * int(x.shape[1])))
    blocks = list(row_blocks(len(x), rows))
    found = []
    for own in blocks:
        queries = as_points(x[own])
        near = torch.empty((len(queries), 0), dtype=torch.int64, device=queries.device)
        far = torch.empty((len(queries), 0), dtype=torch.float64, device=queries.device)
        for other in blocks:
            watch()
            candidates = None if other == own else as_points(x[other])
            where, how_far = _nearest_of_block(queries, candidates, n_neighbours)
            # Earlier blocks stand on the left, so that of equally near ones the first stay first.
            near = torch.cat([near, where + other.start], dim=1)
            far = torch.cat([far, how_far], dim=1)
            order = far.argsort(dim=1, stable=True)[:, :n_neighbours]
            near, far = near.gather(1, order), far.gather(1, order)
        found.append(near)
    return torch.cat(found)


def batch_graph(neighbours: Tensor, index: Tensor) -> Tensor:
    """Cut out of a graph of neighbours what lies within a batch: symmetric, no loops.

    Two samples are joined if one of them is a neighbour of the other. The whole graph, n × n, is
    never made.

    Parameters
    ----------
    neighbours : Tensor, n × m
        Positions of each sample's neighbours (int32 or int64), as of :func:`nearest_neighbours`.
    index : Tensor of b
        Positions of the batch's samples (int64), all different.

    Returns
    -------
    Tensor of bool, b × b
    """
    b = len(index)
    ordered, order = index.sort()
    wanted = neighbours[index].long()  # b × m
    where = torch.searchsorted(ordered, wanted).clamp_(max=b - 1)
    # Neighbours outside of the batch go to a column of their own, which is cut off.
    columns = torch.where(ordered[where] == wanted, order[where], b)
    graph = torch.zeros((b, b + 1), dtype=torch.bool, device=index.device)
    graph = graph.scatter_(1, columns, True)[:, :b]
    return graph | graph.T


def neighbour_shares(x: Tensor, n_neighbours: int, *, guard: float = 1e-10) -> Tensor:
    r"""Share of each sample of a batch among the neighbours of each other one, with gradients.

    With the squared distances D and, of each row, its sorted values
    :math:`\delta_i(0) \le \delta_i(1) \le \dots` (the first is the sample itself),

    .. math::

        P_{ij} = \frac{\max(0, t_i - D_{ij})}{m \, t_i - \sum_{l < m} \delta_i(l)},
        \qquad t_i = \delta_i(m) + \varepsilon.

    This is the closed form of probabilities that are the greater the nearer, with m of them above
    0 [1]_. The sample itself has the greatest, so m − 1 others are left. Rows sum to 1 unless more
    than m samples coincide; then each of them has 1/m.

    Parameters
    ----------
    x : Tensor, b × d
        Samples of a batch, b > m.
    n_neighbours : int
        m ≥ 1, the sample itself included.
    guard : float
        ε > 0.

    Returns
    -------
    Tensor, b × b
        P, not symmetric: row i belongs to sample i.

    References
    ----------
    .. [1] F. Nie, X. Wang, H. Huang, "Clustering and projected clustering with adaptive
       neighbors", 2014.
    """
    m = n_neighbours
    if not 1 <= m < len(x):
        raise DataError(
            f"{m} neighbours were asked in a batch of {len(x)} samples; "
            f"from 1 to {len(x) - 1} are possible."
        )
    distances = squared_distances(x)
    least = distances.topk(m + 1, dim=1, largest=False, sorted=True).values
    bound = least[:, m:] + guard  # b × 1
    room = (bound - least[:, :m]).sum(1, keepdim=True)
    return (bound - distances).clamp(min=0) / room


def _check_number(wanted: int, others: int) -> None:
    if not 0 <= wanted <= max(others, 0):
        raise DataError(
            f"{wanted} neighbours were asked of samples that have {max(others, 0)} others "
            "to choose from; ask for at most so many."
        )


def _nearest_of_block(queries: Tensor, candidates: Tensor | None, m: int) -> tuple[Tensor, Tensor]:
    """Find the up to m nearest among other samples, or among the queries themselves.

    Returns their positions in the block and squared distances (q × at most m each).
    """
    own = candidates is None
    points = queries if candidates is None else torch.cat([queries, candidates])
    everyone = torch.arange(len(points), device=points.device)
    first = 0 if own else len(queries)
    place = everyone - first  # negative for the queries that are no candidates
    m = min(m, len(points) - first - own)
    with exact_products(points.device):
        search = _Search(points, everyone[first:], place, "euclidean")
        parts = [
            search.nearest(everyone[block], m)
            for block in row_blocks(len(queries), block_size(len(points) - first, None))
        ]
    near, far = (torch.cat(part) for part in zip(*parts, strict=True))
    return near - first, far


class _Search:
    """Candidates in the form in which many rows are compared with them."""

    def __init__(self, points: Tensor, among: Tensor, place: Tensor, measure: Measure) -> None:
        self._points, self._among, self._place = points, among, place
        self._euclidean = measure == "euclidean"
        self._queries = standard_position(points)[0] if self._euclidean else points
        self._targets = self._queries[among]
        halves = self._targets.square().sum(1) / 2
        # |x − y|²/2 without |x|²/2, which is the same for all candidates of a row
        self._start = halves if self._euclidean else torch.zeros_like(halves)

    def nearest(self, rows: Tensor, m: int) -> tuple[Tensor, Tensor]:
        """Neighbours (b × m) of some rows, and how far they are."""
        excess = product(-self._queries[rows], self._targets.T, self._start)
        own = self._place[rows]
        inside = (own >= 0).nonzero().flatten()
        excess[inside, own[inside]] = torch.inf
        likely = min(m + SPARE, len(self._among))
        # In the order of the data, so that the first of equally near ones is the first of them.
        candidates = excess.topk(likely, dim=1, largest=False).indices.sort(1).values
        candidates = self._among[candidates]
        size = max(1, EXACT_ELEMENTS // (likely * self._points.shape[1]))
        parts = [
            self._exact(rows[block], candidates[block], m) for block in row_blocks(len(rows), size)
        ]
        near, far = (torch.cat(part) for part in zip(*parts, strict=True))
        return near, far

    def _exact(self, rows: Tensor, candidates: Tensor, m: int) -> tuple[Tensor, Tensor]:
        """Put the nearest candidates in order by distances or products in float64."""
        one, others = self._points[rows].double()[:, None], self._points[candidates].double()
        far = (others - one).square_().sum(2) if self._euclidean else -(others * one).sum(2)
        far.masked_fill_(candidates == rows[:, None], torch.inf)
        order = far.argsort(dim=1, stable=True)[:, :m]
        return candidates.gather(1, order), far.gather(1, order)
