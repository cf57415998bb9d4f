"""Parquet files, with the extra ``tables``; columns are read as those of a text table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dwcl.data.readers.base import Reading, Request, reading, register
from dwcl.data.readers.tabular import Table, assign_roles, check_ids, samples_in_columns, single
from dwcl.errors import DataError, MissingExtraError


def _is_parquet(head: bytes) -> bool:
    return head.startswith(b"PAR1")


@register("Parquet", suffixes=(".parquet", ".pq"), recognises=_is_parquet)
def read_parquet(path: Path, request: Request) -> Reading:
    """Read one table of columns."""
    return single(_read_table(path, request), request).of_type("Parquet")


def _read_table(path: Path, request: Request) -> Table:
    try:
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingExtraError("Reading Parquet files", "tables") from error
    with reading(path, "a Parquet file"):
        content = pq.ParquetFile(path).read()
        names = [str(name) for name in content.column_names]
        columns = [_column(content.column(j)) for j in range(len(names))]
    text = [column.dtype.kind not in "biuf" for column in columns]
    whole = [column.dtype.kind in "biu" or _is_whole(column) for column in columns]
    in_columns = samples_in_columns(request)
    roles = assign_roles(names, text, request, whole=whole, in_columns=in_columns)
    for j in roles.features:
        if text[j]:
            raise DataError(
                f"{path}, column '{names[j]}': {str(columns[j][0])!r} is not a number. Encode text "
                "as numbers, or name the columns of ids (id_column) and classes (labels)."
            )
    if not roles.features or not len(columns[0]):
        raise DataError(f"{path} has no rows, or no columns of features.")
    ids = None if roles.ids is None else columns[roles.ids]
    if ids is not None and roles.ids is not None:
        check_ids(ids, f"{path}: column '{names[roles.ids]}'")
    return Table(
        values=np.column_stack([columns[j] for j in roles.features]),
        names=tuple(names[j] for j in roles.features),
        ids=ids,
        labels=None if roles.labels is None else columns[roles.labels],
        label_name=None if roles.labels is None else names[roles.labels],
    )


def _column(column: Any) -> NDArray[Any]:
    """Return a column as numbers, missing ones NaN, or else as text."""
    values = np.asarray(column.to_numpy())
    if values.dtype.kind in "biuf":
        return values
    known = [value for value in values.tolist() if value is not None]
    if known and all(isinstance(value, bool | int | float) for value in known):
        return values.astype(np.float64)
    return np.array([str(value) for value in values.tolist()], dtype=np.str_)


def _is_whole(column: NDArray[Any]) -> bool:
    if column.dtype.kind != "f":
        return False
    known = column[~np.isnan(column)]
    return bool(np.all(known == np.floor(known)))
