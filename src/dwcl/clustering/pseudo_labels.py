"""Labels that networks learn from, found in their own features."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dwcl.clustering._arrays import as_points, row_blocks
from dwcl.clustering.minibatch import ROWS, cluster
from dwcl.clustering.tables import Table


def pseudo_labels(
    features: Table,
    n_clusters: int,
    *,
    n_init: int,
    generator: torch.Generator,
    budget: int | None = None,
) -> Tensor:
    """Cluster features (n × d) by k-means once each of them reaches from 0 to 1; labels (n, int64).

    Coordinates of unit rows that vary little thus count as much as others. Which label a cluster
    has means nothing; :func:`dwcl.clustering.matching.align_labels` brings it in line with outputs.
    Features beyond a budget in bytes, and those in a file, are gone through by blocks.
    """
    scaled: Table = (
        unit_range(features) if isinstance(features, Tensor) else _UnitRangeTable(features)
    )
    return cluster(scaled, n_clusters, n_init=n_init, generator=generator, budget=budget).labels


def unit_range(x: Tensor) -> Tensor:
    """Scale each column of x (n × d) to the range from 0 to 1; a constant one becomes 0."""
    points = as_points(x)
    lowest, highest = points.aminmax(dim=0)
    return _scaled(points, lowest, highest)


class _UnitRangeTable:
    """A table with its columns scaled as :func:`unit_range` does it, where rows are asked for."""

    def __init__(self, table: Table) -> None:
        self.shape = table.shape
        self._table = table
        ranges = [as_points(table[b]).aminmax(dim=0) for b in row_blocks(len(table), ROWS)]
        self._lowest = torch.stack([lowest for lowest, _ in ranges]).amin(0)
        self._highest = torch.stack([highest for _, highest in ranges]).amax(0)

    def __getitem__(self, rows: Any) -> Tensor:
        return _scaled(as_points(self._table[rows]), self._lowest, self._highest)

    def __len__(self) -> int:
        return int(self.shape[0])


def _scaled(points: Tensor, lowest: Tensor, highest: Tensor) -> Tensor:
    span = highest - lowest
    return (points - lowest) / torch.where(span > 0, span, 1)
