"""What checks and scaling need to know of a view, found in one pass over its rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dwcl.data.missing import observed_blocks
from dwcl.data.multiview import Matrix, MultiView


@dataclass(frozen=True, eq=False)
class Profile:
    """Figures of a view of n × d, over the samples that it has.

    Attributes
    ----------
    low, high : ndarray of d
        Least and greatest value of each column; NaN where a column has one.
    mean, deviation : ndarray of d
        Mean and standard deviation of each column. Where squares of differences leave the range of
        double precision the deviation is not a positive finite number, though values differ.
    zeros : int
        Number of entries that are 0.
    empty_rows : ndarray
        Positions of the rows that hold nothing but 0.
    observed : ndarray of n, bool
        Which samples the view has. Where it has none, the least values are inf.
    """

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    mean: NDArray[np.float64]
    deviation: NDArray[np.float64]
    zeros: int
    empty_rows: NDArray[np.int64]
    observed: NDArray[np.bool_]

    @property
    def n_observed(self) -> int:
        """Number of samples that the view has."""
        return int(self.observed.sum())


Profiles: TypeAlias = Mapping[str, Profile]
"""The profiles of the views by their names."""


def profile_views(data: MultiView) -> dict[str, Profile]:
    """Look at every view once."""
    return {name: profile(view) for name, view in data.views.items()}


def profile(view: Matrix) -> Profile:
    """Look at a view once, by blocks of rows.

    Means and squares of blocks, taken from the first row on, are joined by the rule of Chan, Golub
    and LeVeque: a large offset costs no digits, as it would sums of squares.
    """
    width = view.shape[1]
    origin = np.zeros(width)
    observed = np.zeros(view.shape[0], dtype=np.bool_)
    seen = 0
    low, high = np.full(width, np.inf), np.full(width, -np.inf)
    mean, squares = np.zeros(width), np.zeros(width)
    zeros, empty = 0, [np.empty(0, dtype=np.int64)]
    with np.errstate(over="ignore", invalid="ignore"):
        for rows, block in observed_blocks(view):
            if not seen:
                origin = block[0].copy()
            observed[rows] = True
            np.minimum(low, block.min(axis=0), out=low)  # (b, d) -> (d,)
            np.maximum(high, block.max(axis=0), out=high)
            filled = np.count_nonzero(block, axis=1)  # (b,)
            zeros += block.size - int(filled.sum())
            empty.append(rows[filled == 0])
            shifted = block - origin
            of_block = shifted.mean(axis=0)
            shifted -= of_block
            squares += np.square(shifted, out=shifted).sum(axis=0)
            total = seen + len(block)
            step = of_block - mean
            squares += np.square(step) * (seen * len(block) / total)
            mean += step * (len(block) / total)
            seen = total
        deviation = np.sqrt(squares / max(seen, 1))
    return Profile(low, high, origin + mean, deviation, zeros, np.concatenate(empty), observed)
