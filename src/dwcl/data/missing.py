"""Samples that lack a view: in that view their rows are NaN throughout.

A view need not know more than its own values, and whatever takes, joins, scales or stores rows
carries what is missing along. A single NaN beside numbers is no missing view, but a flaw.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dwcl.data.blocks import dense_rows, row_blocks, rows_of_block
from dwcl.data.ondisk import DiskTable
from dwcl.errors import DataError, nearest

if TYPE_CHECKING:
    from dwcl.data.multiview import Matrix


def missing_rows(block: NDArray[Any]) -> NDArray[np.bool_]:
    """Tell which rows (b × d) are NaN throughout: b truth values."""
    if block.dtype.kind != "f":
        return np.zeros(len(block), dtype=np.bool_)
    # A row that is there costs no more than a look at its first value.
    missing: NDArray[np.bool_] = np.isnan(block[:, 0])
    candidates = np.flatnonzero(missing)
    if len(candidates):
        missing[candidates] = np.isnan(block[candidates]).all(axis=1)
    return missing


def observed_rows(view: Matrix) -> NDArray[np.bool_]:
    """Tell which samples a view (n × d) has: n truth values, found by blocks of rows."""
    observed = np.ones(view.shape[0], dtype=np.bool_)
    if view.dtype.kind != "f":
        return observed
    if sp.issparse(view) and not np.isnan(view.data).any():  # type: ignore[union-attr]
        return observed
    step = rows_of_block(view.shape[1])
    for start in range(0, len(observed), step):
        observed[start : start + step] = ~missing_rows(dense_rows(view, start, start + step))
    return observed


def observed_blocks(view: Matrix) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float64]]]:
    """Go through the rows that a view has, by blocks: their positions (b), and the rows (b × d).

    As :func:`dwcl.data.blocks.row_blocks`, but for the missing rows, and for blocks of nothing
    else.
    """
    for start, block in row_blocks(view):
        missing = missing_rows(block)
        rows = start + np.flatnonzero(~missing)
        if len(rows):
            yield rows, block[~missing] if missing.any() else block


def without_rows(view: Matrix, observed: NDArray[np.bool_]) -> Matrix:
    """Return a view (n × d) with NaN in the rows that are not observed (n truth values).

    A view that has all of its rows comes back as it is; another one is copied as floating-point
    numbers, but for a table on the disk, which is read from there as before. A sparse matrix stores
    every entry of a missing row.
    """
    if observed.all():
        return view
    dtype = _with_nan(view.dtype)
    if isinstance(view, DiskTable):
        return GappyTable(view, observed)
    if not isinstance(view, np.ndarray):
        gaps = np.flatnonzero(~observed)
        width = view.shape[1]
        rows, columns = np.repeat(gaps, width), np.tile(np.arange(width), len(gaps))
        nan = sp.csr_array((np.full(len(rows), np.nan, dtype), (rows, columns)), shape=view.shape)
        kept = view.astype(dtype).tocoo()
        there = observed[kept.row]
        parts = (kept.data[there], (kept.row[there], kept.col[there]))
        return sp.csr_array(sp.csr_array(parts, shape=view.shape) + nan)
    copy = np.array(view, dtype=dtype)
    copy[~observed] = np.nan
    return copy


class GappyTable(DiskTable):
    """A table on the disk, some rows of which count as missing."""

    def __init__(self, table: DiskTable, observed: NDArray[np.bool_]) -> None:
        super().__init__(table.path, table.shape, _with_nan(table.dtype))
        self._table = table
        self._observed = observed

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Read consecutive rows into a new array."""
        values = self._table.read(start, stop).astype(self.dtype, copy=False)
        values[~self._observed[start:stop]] = np.nan
        return values


def with_gaps(views: Mapping[str, Matrix], observed: Any) -> dict[str, Matrix]:
    """Return the views with NaN where a table says that a sample lacks a view.

    Parameters
    ----------
    views : mapping of str to matrix
        n × d_v each.
    observed : array-like of n × V, data frame, or mapping of str to array-like of n
        Truth values, or 0 and 1. By names, views that are not named have all samples.
    """
    if observed is None:
        return dict(views)
    columns = getattr(observed, "columns", None)
    if columns is not None:  # of a data frame: by name, since its order may be another one
        observed = {str(name): observed[name] for name in columns}
    if isinstance(observed, Mapping):
        for name in observed:
            if name not in views:
                raise DataError(
                    f"observed names a view '{name}', which the data do not have. "
                    f"{nearest(str(name), views)}"
                )
        by_view = {name: observed[name] for name in views if name in observed}
    else:
        table = np.asarray(observed)
        if table.ndim != 2 or table.shape[1] != len(views):
            raise DataError(
                f"observed has shape {table.shape}; one row per sample and one column for each of "
                f"the {len(views)} views are expected, or a mapping from names of views."
            )
        by_view = dict(zip(views, table.T, strict=True))
    found = dict(views)
    for name, column in by_view.items():
        found[name] = without_rows(views[name], _truth(column, name, views[name].shape[0]))
    return found


def _truth(values: Any, name: str, n: int) -> NDArray[np.bool_]:
    """Check what is said of a view: n truth values."""
    column = np.asarray(values)
    if column.shape != (n,):
        raise DataError(
            f"observed has values of shape {column.shape} for view '{name}', but the views have "
            f"{n} samples; one value per sample is expected."
        )
    if column.dtype.kind not in "buif" or not np.isin(column, (0, 1)).all():
        raise DataError(
            f"observed has values for view '{name}' that are neither true nor false; "
            "1 (the sample has the view) and 0 (it lacks it) are expected."
        )
    return column.astype(np.bool_)


def _with_nan(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type itself, or for whole numbers the floating-point type that holds them."""
    return dtype if dtype.kind == "f" else np.result_type(dtype, np.float32)
