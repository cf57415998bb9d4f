"""Data frames of any library as views, their rows matched by id, index or position.

The libraries are reached through narwhals (extra ``tables``), which is imported only when a data
frame really comes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dwcl.data.matching import match_samples
from dwcl.data.multiview import MultiView, Provenance
from dwcl.errors import DataError, MissingExtraError, nearest

_LIBRARIES = frozenset(
    {"pandas", "polars", "pyarrow", "modin", "cudf", "narwhals", "dask", "duckdb", "ibis"}
)
_FRAMES = frozenset({"DataFrame", "LazyFrame", "Table"})


@dataclass(frozen=True)
class _Frame:
    """One frame as numbers, with what tells its rows apart."""

    values: NDArray[Any]
    columns: tuple[str, ...]
    ids: NDArray[Any] | None  # from the id column, or from an index that is not just positions
    index: NDArray[Any] | None
    labels: NDArray[Any] | None


def is_frame(obj: Any) -> bool:
    """Tell whether an object is a data frame, without importing any library of data frames."""
    return any(
        cls.__name__ in _FRAMES and cls.__module__.partition(".")[0] in _LIBRARIES
        for cls in type(obj).__mro__
    )


def from_frames(
    frames: Mapping[str, Any],
    *,
    id_column: str | None = None,
    labels: Any = None,
    label_column: str | None = None,
) -> MultiView:
    """Build a :class:`~dwcl.data.multiview.MultiView` from one data frame per view.

    Rows are matched by the id column if one is named; else by the index, where a frame has one
    that is more than row numbers; else by position. Samples that some frame lacks are left out;
    how many, of which view, is said in the log and in ``provenance.layout``. The order is that of
    the first frame.

    Parameters
    ----------
    frames : mapping of str to data frame
        Frames of pandas, polars, pyarrow or any other library that narwhals knows; they may be
        mixed.
    id_column : str, optional
        Column (or named index) of the sample ids, in every frame.
    labels : array-like, series or data frame, optional
        Known classes, for scoring only: an array in the order of the first frame, or a series or
        frame whose rows are matched as those of the views are.
    label_column : str, optional
        Column of the classes, in one of the frames or in `labels`.

    Raises
    ------
    DataError
        If a column is no number or missing, an id occurs twice, or rows cannot be matched.
    MissingExtraError
        If narwhals is not installed.
    """
    if not frames:
        raise DataError("No view was given; at least one data frame is needed.")
    if labels is not None and not is_frame(labels) and label_column is not None:
        raise DataError("Give either labels as values or the name of a label_column, not both.")
    own_label_column = label_column if labels is None else None
    parts = {
        str(name): _take_apart(frame, f"view '{name}'", id_column, own_label_column)
        for name, frame in frames.items()
    }
    if own_label_column is not None and all(part.labels is None for part in parts.values()):
        known = {column for part in parts.values() for column in part.columns}
        raise DataError(f"There is no column '{label_column}'. {nearest(str(label_column), known)}")
    parts = _identified(parts)
    if labels is not None:
        name, first = next(iter(parts.items()))
        in_order = _labels_like(labels, first, id_column, label_column)
        parts[name] = replace(first, labels=in_order)
    parts, lines = _matched(parts)
    return MultiView(
        views={name: part.values for name, part in parts.items()},
        sample_ids=next(iter(parts.values())).ids,
        labels=next((p.labels for p in parts.values() if p.labels is not None), None),
        columns={name: part.columns for name, part in parts.items()},
        provenance=Provenance(layout=lines),
    )


def row_names(frame: Any) -> NDArray[Any] | None:
    """Tell the index of a data frame by which its rows can be told apart; None if it has none."""
    nw, wrapped = _wrap(frame, "the table")
    index = _index(nw, wrapped)
    return None if index is None or _only_positions(index) or _repeats(index) else index


# -- taking frames apart ---------------------------------------------------------------------------


def _take_apart(frame: Any, what: str, id_column: str | None, label_column: str | None) -> _Frame:
    nw, wrapped = _wrap(frame, what)
    index = _index(nw, wrapped)
    names = {str(name): name for name in wrapped.columns}  # pandas knows names that are no text
    ids = None
    if id_column is not None:
        ids = _id_values(wrapped, index, id_column, what, names)
    elif index is not None and not _only_positions(index):
        ids = index
    labels = None
    if label_column is not None and label_column in names:
        labels = np.asarray(wrapped.get_column(names[label_column]).to_numpy())
    features = [name for name in names if name not in (id_column, label_column)]
    if not features:
        raise DataError(f"{what.capitalize()} has no columns of features.")
    if len(features) < len(names):
        wrapped = wrapped.select(nw.col(*(names[name] for name in features)))
    return _Frame(_numbers(nw, wrapped, what), tuple(features), ids, index, labels)


def _wrap(frame: Any, what: str) -> tuple[Any, Any]:
    """Return narwhals and the frame under its interface."""
    try:
        import narwhals.stable.v1 as nw
    except ImportError as error:
        raise MissingExtraError("Reading data frames", "tables") from error
    try:
        return nw, nw.from_native(frame, eager_only=True)
    except Exception as error:  # each library words its refusal in a class of its own
        first_line = (str(error).splitlines() or [type(error).__name__])[0]
        raise DataError(
            f"{what.capitalize()} cannot be used as a data frame ({first_line}). Give a frame that "
            "is in memory (collect a lazy one first) with names of columns that differ."
        ) from error


def _index(nw: Any, wrapped: Any) -> NDArray[Any] | None:
    index = nw.maybe_get_index(wrapped)
    if index is None:
        return None
    values = np.asarray(index.to_numpy())
    if values.dtype == object and len(values) and isinstance(values[0], tuple):
        # An index of several levels: numpy would make a second axis of the tuples.
        return np.array([" ".join(map(str, value)) for value in values], dtype=object)
    return values


def _only_positions(index: NDArray[Any]) -> bool:
    return np.array_equal(index, np.arange(len(index)))


def _id_values(
    wrapped: Any, index: NDArray[Any] | None, column: str, what: str, names: Mapping[str, Any]
) -> NDArray[Any]:
    if column in names:
        series = wrapped.get_column(names[column])
        if series.null_count():
            raise DataError(
                f"The column '{column}' of {what} has {series.null_count()} rows without an id; "
                "every sample needs one."
            )
        return np.asarray(series.to_numpy())
    if index is not None and getattr(wrapped.to_native().index, "name", None) == column:
        return index
    raise DataError(f"{what.capitalize()} has no column '{column}'. {nearest(column, names)}")


def _numbers(nw: Any, wrapped: Any, what: str) -> NDArray[Any]:
    schema = wrapped.schema
    for name, dtype in schema.items():
        if not (dtype.is_numeric() or dtype == nw.Boolean):
            raise DataError(
                f"Column '{name}' of {what} holds {dtype}, not numbers. Encode text or categories "
                "as numbers first, or name the columns of ids (id_column) and classes "
                "(label_column)."
            )
    if len(set(schema.values())) == 1:
        values = wrapped.to_numpy()
        if values.dtype.kind in "biuf":
            return np.asarray(values)
    columns = [_column(nw, wrapped.get_column(name)) for name in wrapped.columns]
    return np.column_stack(columns)


def _column(nw: Any, series: Any) -> NDArray[Any]:
    values = np.asarray(series.to_numpy())
    if values.dtype.kind in "biuf":
        return values
    # Whole numbers with gaps and decimals come as objects; as floats, a gap is NaN.
    return np.asarray(series.cast(nw.Float64).to_numpy(), dtype=np.float64)


# -- bringing rows together ------------------------------------------------------------------------


def _identified(parts: Mapping[str, _Frame]) -> dict[str, _Frame]:
    """Decide by what rows are matched: give all frames ids, or none."""
    if all(part.ids is None for part in parts.values()):
        return dict(parts)
    if len(parts) == 1:
        ((name, part),) = parts.items()
        # Nothing is to be matched: rows that are repeated, as in a bootstrap, may stay.
        if part.index is not None and part.ids is part.index and _repeats(part.index):
            part = replace(part, ids=None)
        return {name: part}
    without = [name for name, p in parts.items() if p.ids is None and p.index is None]
    if without:
        raise DataError(
            f"View '{without[0]}' has no index by which its rows could be matched to those of the "
            "other views. Name a column of ids with id_column, or reset the index of the others "
            "if all rows are in the same order."
        )
    return {
        name: replace(part, ids=part.index if part.ids is None else part.ids)
        for name, part in parts.items()
    }


def _repeats(ids: NDArray[Any]) -> bool:
    return len(set(ids.tolist())) < len(ids)


def _matched(parts: Mapping[str, _Frame]) -> tuple[dict[str, _Frame], tuple[str, ...]]:
    ids = {name: part.ids for name, part in parts.items() if part.ids is not None}
    if len(ids) < len(parts):
        return dict(parts), ()
    matching = match_samples(ids)
    if all(len(rows) == len(parts[name].values) for name, rows in matching.rows.items()) and all(
        np.array_equal(rows, np.arange(len(rows))) for rows in matching.rows.values()
    ):
        return dict(parts), ()
    matched = {}
    for name, part in parts.items():
        rows = matching.rows[name]
        labels = None if part.labels is None else part.labels[rows]
        matched[name] = replace(part, values=part.values[rows], ids=matching.ids, labels=labels)
    return matched, matching.lines


def _labels_like(
    labels: Any, first: _Frame, id_column: str | None, label_column: str | None
) -> NDArray[Any]:
    """Return labels in the order of the first frame."""
    values, ids = _labels_apart(labels, id_column, label_column)
    n = len(first.values)
    if ids is None or first.ids is None:
        if values.shape != (n,):
            raise DataError(
                f"The labels have shape {values.shape}, but the first view has {n} rows; one label "
                f"per row is expected, shape ({n},)."
            )
        return values
    place = {key: row for row, key in enumerate(ids.tolist())}
    if len(place) < len(ids):
        raise DataError("The labels have more than one row for the same sample id.")
    missing = [key for key in first.ids.tolist() if key not in place]
    if missing:
        raise DataError(
            f"{len(missing)} of {n} samples have no label, such as {missing[0]!r}; one label per "
            "sample of the first view is expected."
        )
    return values[[place[key] for key in first.ids.tolist()]]


def _labels_apart(
    labels: ArrayLike, id_column: str | None, label_column: str | None
) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """Return the values of labels and, for a frame or series that has them, ids."""
    if not is_frame(labels):
        index = getattr(labels, "index", None)
        if index is None or callable(index):
            return np.asarray(labels), None
        ids = np.asarray(index)
        return np.asarray(labels), None if _only_positions(ids) else ids
    nw, wrapped = _wrap(labels, "the table of labels")
    names = {str(name): name for name in wrapped.columns}
    rest = [name for name in names if name != id_column]
    column = label_column or (rest[0] if len(rest) == 1 else None)
    if column is None or column not in names:
        raise DataError(
            f"It is not clear which column holds the labels: {', '.join(names)}. "
            "Name it with label_column."
        )
    values = np.asarray(wrapped.get_column(names[column]).to_numpy())
    index = _index(nw, wrapped)
    if id_column is not None:
        return values, _id_values(wrapped, index, id_column, "the table of labels", names)
    if index is None or _only_positions(index):
        return values, None
    return values, index
