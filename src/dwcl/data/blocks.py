"""Passes over large views by blocks of rows, so that no double-precision copy of a view is held."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

if TYPE_CHECKING:
    from dwcl.data.multiview import Matrix, MultiView

# A block of doubles takes about 1 MB and so stays in the cache of a core.
BLOCK_ENTRIES = 1 << 17


def rows_of_block(width: int) -> int:
    """Return the number of rows of a block; it depends on the width alone."""
    return max(1, BLOCK_ENTRIES // width)


def row_blocks(
    view: Matrix, first: int = 0, last: int | None = None
) -> Iterator[tuple[int, NDArray[np.float64]]]:
    """Go through a view by blocks of rows.

    Parameters
    ----------
    view : matrix
        n × d, dense or sparse by rows, in memory or on disk, of any real type.
    first, last : int
        The rows to go through; all of them unless said otherwise.

    Yields
    ------
    start : int
        Position of the block's first row.
    block : ndarray of shape (b, d)
        The rows in double precision, C-contiguous. It may share the memory of a view that has
        this form already, so it is for reading only.
    """
    n, width = view.shape
    step = rows_of_block(width)
    last = n if last is None else min(last, n)
    for start in range(first, last, step):
        rows = dense_rows(view, start, min(start + step, last))
        yield start, np.ascontiguousarray(rows, dtype=np.float64)


def dense_rows(view: Matrix, start: int, stop: int) -> NDArray[Any]:
    """Return rows of a view as a dense array of the view's type."""
    rows: Any = view[start:stop]
    return np.asarray(rows.toarray() if sp.issparse(view) else rows)


def place(data: MultiView, view: str, row: int, column: int) -> str:
    """Word a position in a view for a message, by names where there are names."""
    where = f"column {column} (counted from 0)"
    if view in data.columns:
        where = f"column '{data.columns[view][column]}'"
    (sample,) = data.sample_ids[row : row + 1].tolist()
    return f"{where} of sample {sample!r}"
