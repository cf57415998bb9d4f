"""Where the samples of a table lie: in rows (n × d) or in columns (d × n).

The evidence is the number of labels, and the one length that all tables share. Where both readings
remain possible the functions refuse and name them; only formats in which samples lie in rows by
convention are read that way in doubt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from dwcl.data.multiview import Matrix
from dwcl.errors import DataError, nearest

HOW_TO_SAY = (
    "Say which with transpose=False (--no-transpose) for samples in rows or transpose=True "
    "(--transpose) for samples in columns."
)


def sides(table: Any) -> tuple[int, ...]:
    """Return the lengths of the sides of a table along which samples may lie.

    Images (three sides or more) have them first or last, and where two neighbouring sides are
    equal, as height and width of an image are, at the other end.
    """
    shape = table.shape
    if len(shape) > 2 and shape[1] == shape[2] != shape[0]:
        return (shape[0],)
    if len(shape) > 2 and shape[0] == shape[1] != shape[-1]:
        return (shape[-1],)
    return (shape[0], shape[-1])


def possible_lengths(
    tables: Mapping[str, Any], transpose: bool | Sequence[str] | None = None
) -> set[int]:
    """Return every number of samples that all tables can have."""
    if transpose is not None:
        told = as_told(tables, transpose)
        return set.intersection(*({_length(t, told[name])} for name, t in tables.items()))
    lengths = set.intersection(*(set(sides(table)) for table in tables.values()))
    # One sample, or tables of one column: where another length is common, 1 is a width.
    return lengths - {1} if len(lengths) > 1 else lengths


def orient(
    tables: Mapping[str, Any],
    n_labels: int | None,
    transpose: bool | Sequence[str] | None,
    *,
    rows_in_doubt: bool = False,
) -> dict[str, bool]:
    """Tell for each table whether its samples lie in columns.

    Parameters
    ----------
    tables : mapping of str to array or sparse matrix
        Tables with two sides or more.
    n_labels : int or None
        The number of labels, where there are any.
    transpose : bool, sequence of str or None
        What the user says: all tables are d × n, none is, or those named.
    rows_in_doubt : bool
        Whether samples lie in rows where nothing decides.

    Raises
    ------
    DataError
        If the lengths contradict each other or both readings are possible.
    """
    lengths = possible_lengths(tables, transpose)
    if not lengths:
        raise DataError(
            f"The views have different numbers of samples: {shapes_in_words(tables)}. Every view "
            "must describe the same samples; name the right ones with views, or those with "
            "samples in columns with transpose."
        )
    if n_labels is not None and n_labels not in lengths:
        raise DataError(
            f"There are {n_labels} labels, but the views are {shapes_in_words(tables)}; as many "
            "labels as samples are expected. Name the right ones with labels."
        )
    if transpose is not None:
        return as_told(tables, transpose)
    first_sides = {table.shape[0] for table in tables.values()}
    if n_labels is not None:
        n = n_labels
    elif len(lengths) == 1:
        (n,) = lengths
    elif rows_in_doubt and len(first_sides) == 1:
        (n,) = first_sides
    else:
        raise _two_ways(tables)
    return _by_length(tables, n, rows_in_doubt)


def as_told(tables: Mapping[str, Any], transpose: bool | Sequence[str]) -> dict[str, bool]:
    """Spell out for each table what the user says."""
    if isinstance(transpose, bool):
        return dict.fromkeys(tables, transpose)
    for name in transpose:
        if name not in tables:
            raise DataError(f"transpose names '{name}', which is no view. {nearest(name, tables)}")
    return {name: name in transpose for name in tables}


def laid_in_rows(table: Any, in_columns: bool) -> Matrix:
    """Return a table as n × d, transposed and flattened where need be, without a copy if it can."""
    if table.ndim == 2:
        return table.T if in_columns else table
    if in_columns:
        table = np.moveaxis(table, -1, 0)
    return table.reshape(len(table), -1)


def is_symmetric(table: Any) -> bool:
    """Tell whether both readings of a square table are the same."""
    turned = table.T
    if sp.issparse(table):
        return bool(abs(table - turned).sum() == 0)
    return np.array_equal(table, turned)


def orientation_line(columns: Mapping[str, bool]) -> str:
    """Say in one line where the samples lie."""
    turned = [name for name, in_columns in columns.items() if in_columns]
    if not turned:
        return "orientation: samples in rows"
    if len(turned) == len(columns):
        return "orientation: samples in columns (transposed)"
    return f"orientation: samples in rows, but in columns (transposed) of {', '.join(turned)}"


def shapes_in_words(tables: Mapping[str, Any]) -> str:
    """List tables with their shapes."""
    return ", ".join(f"'{name}' {' × '.join(map(str, t.shape))}" for name, t in tables.items())


def _length(table: Any, in_columns: bool) -> int:
    return int(table.shape[-1 if in_columns else 0])


def _by_length(tables: Mapping[str, Any], n: int, rows_in_doubt: bool) -> dict[str, bool]:
    square = [name for name, table in tables.items() if set(sides(table)) == {n}]
    square = [name for name in square if len(sides(tables[name])) == 2]
    columns = {
        name: table.shape[0] != n or sides(table) == (table.shape[-1],)
        for name, table in tables.items()
        if name not in square
    }
    for name in square:
        if rows_in_doubt or is_symmetric(tables[name]):
            columns[name] = False
        elif len(others := {columns[other] for other in columns if other not in square}) == 1:
            (columns[name],) = others  # tables of one file lie alike
        else:
            raise _two_ways({name: tables[name]})
    return {name: columns[name] for name in tables}


def _two_ways(tables: Mapping[str, Any]) -> DataError:
    name, table = next(iter(tables.items()))
    rows, columns = _length(table, False), _length(table, True)
    return DataError(
        f"The data can be read in two ways: {rows} samples in rows, or {columns} samples in "
        f"columns ({name} is {' × '.join(map(str, table.shape))}), and neither labels nor the "
        f"other views decide. {HOW_TO_SAY}"
    )
