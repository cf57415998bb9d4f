"""Distances of samples to centres, and the nearest centre, under one arithmetic."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from dwcl.clustering._arrays import as_points, block_size, exact_products, row_blocks
from dwcl.errors import DataError


class Assignment(NamedTuple):
    """Nearest centre of each sample (n, int64; the first of equally near ones) and its distance."""

    labels: Tensor
    distances: Tensor


def assign(x: Tensor, centres: Tensor, *, block_rows: int | None = None) -> Assignment:
    """Find the nearest centre of each sample.

    Parameters
    ----------
    x : Tensor, n × d
        Samples, float32 or float64.
    centres : Tensor, k × d
        Centres.
    block_rows : int, optional
        Rows that are worked on at once; by default as many as suit the cache.
    """
    return nearest_centres(*_checked(x, centres), block_rows)


def centre_distances(x: Tensor, centres: Tensor, *, block_rows: int | None = None) -> Tensor:
    """Euclidean distances (n × k) of samples to centres, in the type of the samples.

    The first of the least distances of a row is where :func:`assign` puts the sample.

    Parameters
    ----------
    x : Tensor, n × d
        Samples, float32 or float64.
    centres : Tensor, k × d
        Centres.
    block_rows : int, optional
        Rows that are worked on at once; by default as many as suit the cache.
    """
    return torch.cat(list(_distance_blocks(*_checked(x, centres), block_rows)))


def squared_distances(x: Tensor) -> Tensor:
    """Squared Euclidean distances within a batch (b × b), with gradients.

    The diagonal is exactly 0, and so is what cannot be told from 0: the products of two rows leave
    no digit of a distance that is smaller than their rounding. Such entries carry no gradient.

    Parameters
    ----------
    x : Tensor, b × d
        Rows, in float32 or float64.
    """
    centred = x - x.detach().mean(0)  # distances stay as they are, and rounding is less
    squares = centred.square().sum(1)
    lengths = squares[:, None] + squares
    distances = lengths - 2 * (centred @ centred.T)
    unknown = distances.detach() <= 4 * torch.finfo(x.dtype).eps * lengths.detach()
    return distances.masked_fill(unknown.fill_diagonal_(True), 0)


def nearest_centres(x: Tensor, centres: Tensor, block_rows: int | None = None) -> Assignment:
    """Do the work of :func:`assign` on tensors that are known to be fit for it."""
    found = [block.min(dim=1) for block in _distance_blocks(x, centres, block_rows)]
    return Assignment(
        torch.cat([block.indices for block in found]), torch.cat([block.values for block in found])
    )


def _checked(x: Tensor, centres: Tensor) -> tuple[Tensor, Tensor]:
    points, centres = as_points(x), as_points(centres, "centres")
    if points.shape[1] != centres.shape[1]:
        raise DataError(
            f"The samples have {points.shape[1]} features and the centres {centres.shape[1]}; "
            "the same features in the same order are expected in both."
        )
    return points, centres


def _distance_blocks(x: Tensor, centres: Tensor, block_rows: int | None) -> Iterator[Tensor]:
    """Distances (b × k) block by block."""
    with exact_products(x.device):
        # Equal centres share one column: rounding must not send equal samples to different ones.
        targets, column = torch.unique(centres.double(), dim=0, return_inverse=True)
        origin = targets.mean(0)
        targets -= origin
        squares = targets.square().sum(1, keepdim=True)
        for block in row_blocks(len(x), block_size(max(targets.shape), block_rows)):
            distances = _exact_where_nearest(x[block].double() - origin, targets, squares)
            yield distances.to(x.dtype).T[:, column]


def _exact_where_nearest(block: Tensor, targets: Tensor, squares: Tensor) -> Tensor:
    """Distances (k × b) by the products of both, and by their difference to the nearest.

    |x|² + |c|² − 2xc cannot tell a distance of zero from one of about 1e-8 of the lengths.
    """
    distances = torch.addmm(squares, targets, block.T, alpha=-2)
    distances.add_(block.square().sum(1)).clamp_(min=0).sqrt_()
    nearest = distances.min(0, keepdim=True).indices
    exact = torch.linalg.vector_norm(block - targets[nearest[0]], dim=1)
    return distances.scatter_(0, nearest, exact[None])
