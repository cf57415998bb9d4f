"""What the columns of a table mean: ids, labels, and features, perhaps of several views.

Shared by all formats whose columns have names. Samples lie in rows unless something says
otherwise: the request, the labels, or that several tables share only their number of columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dwcl.data.matching import match_samples
from dwcl.data.readers.base import Reading, Request
from dwcl.data.readers.names import CLEAR_NAMES, ID_NAMES, plain
from dwcl.data.readers.orientation import orient, orientation_line
from dwcl.data.readers.prefixes import by_prefix
from dwcl.errors import DataError, nearest


@dataclass(frozen=True)
class Table:
    """One table of numbers with what its other columns said.

    Attributes
    ----------
    values : matrix of n × m
        The columns of numbers.
    names : tuple of m str, optional
        Their names.
    ids, labels : array of n, optional
        The columns that were taken for sample ids and labels.
    label_name : str, optional
        Name of the column of labels.
    """

    values: NDArray[Any]
    names: tuple[str, ...] | None = None
    ids: NDArray[Any] | None = None
    labels: NDArray[Any] | None = None
    label_name: str | None = None


@dataclass(frozen=True)
class Roles:
    """Positions of the columns by their meaning."""

    ids: int | None
    labels: int | None
    features: tuple[int, ...]


def assign_roles(
    names: Sequence[str] | None,
    text: Sequence[bool],
    request: Request,
    *,
    whole: Sequence[bool],
    in_columns: bool = False,
) -> Roles:
    """Find the columns of ids and labels.

    Parameters
    ----------
    names : sequence of str, optional
        Names of all columns, if they have any.
    text : sequence of bool
        Which columns hold text.
    request : Request
        The names that the user gave for both.
    whole : sequence of bool
        Which columns of numbers hold whole numbers only; others are not taken for labels unasked.
    in_columns : bool
        Whether the samples lie in columns, so that no column holds the labels.
    """
    width = len(text)
    plain_names = [plain(name) for name in names] if names is not None else [None] * width
    ids = _named(request.id_column, names, "id_column")
    labels = _named(request.labels, names, "labels")
    if labels is None and request.given_labels is None and not in_columns:
        labels = next((j for j in range(width) if _names_labels(j, plain_names, text, whole)), None)
    if ids is None:
        others = [j for j in range(width) if j != labels]
        # A column without a name holds ids only where data frames write their index.
        by_name = [j for j in others if plain_names[j] in ID_NAMES and (j == 0 or plain_names[j])]
        ids = next(iter(by_name or [j for j in others if text[j]]), None)
    features = tuple(j for j in range(width) if j not in (ids, labels))
    return Roles(ids, labels, features)


def _names_labels(
    j: int,
    names: Sequence[str | None],
    text: Sequence[bool],
    whole: Sequence[bool],
) -> bool:
    if names[j] not in CLEAR_NAMES:
        return False
    if names[j] == "y" and "x" in names:  # coordinates
        return False
    return text[j] or whole[j]


def _named(name: str | None, names: Sequence[str] | None, option: str) -> int | None:
    if name is None:
        return None
    if names is None:
        raise DataError(f"{option}='{name}' names a column, but the table has no header.")
    if name not in names:
        what = " or file" if option == "labels" else ""
        raise DataError(f"{option}='{name}': there is no such column{what}. {nearest(name, names)}")
    return list(names).index(name)


def check_ids(ids: NDArray[Any], column: str) -> None:
    """Refuse ids that occur twice, saying which column was taken for the ids."""
    values, counts = np.unique(ids, return_counts=True)
    if len(values) < len(ids):
        twice = values[np.argmax(counts)]
        raise DataError(
            f"{column} was taken for the sample ids, but {str(twice)!r} occurs more than once. "
            "Name the right column with id_column, or the column of classes with labels."
        )


def single(table: Table, request: Request) -> Reading:
    """Read one table, whose column prefixes may make several views."""
    columns = samples_in_columns(request)
    if request.transpose is None and request.given_labels is not None:
        columns = orient({"view1": table.values}, _length(request), None, rows_in_doubt=True)[
            "view1"
        ]
    if columns:
        table = _flipped(table)
    views = by_prefix(table.names, table.values.shape[1], request.views)
    names = table.names
    line = "views: one table" if len(views) == 1 else f"views: column prefixes {', '.join(views)}"
    widths = " + ".join(str(len(positions)) for positions in views.values())
    return Reading(
        views={name: _columns_of(table.values, at) for name, at in views.items()},
        columns={}
        if names is None
        else {name: tuple(names[j] for j in at) for name, at in views.items()},
        labels=table.labels,
        sample_ids=table.ids,
        lines=(
            f"{line}, {widths} features",
            orientation_line({"the table": columns}),
            *_label_lines(table),
        ),
    )


def several(tables: Mapping[str, Table], request: Request) -> Reading:
    """Read one table per view; rows are matched by their ids where all tables have them."""
    columns = _columns_of_samples(tables, request)
    tables = {name: _flipped(t) if columns[name] else t for name, t in tables.items()}
    lines: list[str] = []
    if all(table.ids is not None for table in tables.values()):
        tables, lines = _matched(tables)
    first = next(iter(tables.values()))
    labelled = next((t for t in tables.values() if t.labels is not None), None)
    widths = " + ".join(str(table.values.shape[1]) for table in tables.values())
    return Reading(
        views={name: table.values for name, table in tables.items()},
        columns={name: t.names for name, t in tables.items() if t.names is not None},
        labels=labelled.labels if labelled else None,
        sample_ids=first.ids,
        lines=(
            f"views: {len(tables)} files, {widths} features",
            *lines,
            orientation_line(columns),
            *(_label_lines(labelled) if labelled else ()),
        ),
    )


def _columns_of_samples(tables: Mapping[str, Table], request: Request) -> dict[str, bool]:
    """Tell for each table whether its samples lie in columns.

    Where tables have ids and names, the common ones are those of the samples; sizes decide only
    where there are none, and never against column names that differ.
    """
    values = {name: table.values for name, table in tables.items()}
    if request.transpose is None:
        ids = [set(t.ids.tolist()) for t in tables.values() if t.ids is not None]
        names = [set(t.names) for t in tables.values() if t.names is not None]
        same_names = len(names) == len(tables) and bool(set.intersection(*names))
        if len(ids) == len(tables):
            in_columns = same_names and not set.intersection(*ids)
            return dict.fromkeys(tables, in_columns)
        if names and not same_names:
            return dict.fromkeys(tables, False)
    return orient(values, _length(request), request.transpose, rows_in_doubt=True)


def _matched(tables: Mapping[str, Table]) -> tuple[dict[str, Table], list[str]]:
    """Bring all tables into the order of the first, without samples that some table lacks."""
    matching = match_samples(
        {name: table.ids for name, table in tables.items() if table.ids is not None}
    )
    matched = {}
    for name, table in tables.items():
        rows = matching.rows[name]
        labels = None if table.labels is None else table.labels[rows]
        matched[name] = replace(table, values=table.values[rows], ids=matching.ids, labels=labels)
    return matched, list(matching.lines)


def _label_lines(table: Table) -> tuple[str, ...]:
    if table.labels is None:
        return ()
    return (f"labels: column {table.label_name}, {len(np.unique(table.labels))} values",)


def _length(request: Request) -> int | None:
    """Return the number of samples as the labels tell it, unless they may be of more samples."""
    given = request.given_labels
    return None if given is None or given.ids is not None else len(given.values)


def samples_in_columns(request: Request) -> bool:
    """Tell whether the user says that the samples of a single table lie in columns."""
    if request.transpose is None or isinstance(request.transpose, bool):
        return bool(request.transpose)
    if list(request.transpose) not in ([], ["view1"]):
        raise DataError(
            f"transpose names {', '.join(request.transpose)}, but a single table can only be "
            "transposed as a whole: transpose=True."
        )
    return bool(request.transpose)


def _flipped(table: Table) -> Table:
    """Exchange rows and columns: ids become names of features, and names become ids."""
    if table.labels is not None:
        raise DataError(
            f"With samples in columns, the column '{table.label_name}' cannot hold one label per "
            "sample. Give the labels as a file, or leave out transpose."
        )
    names = None if table.ids is None else tuple(map(str, table.ids.tolist()))
    ids = None if table.names is None else np.array(table.names, dtype=np.str_)
    if ids is not None:
        check_ids(ids, "The header")
    return Table(table.values.T, names, ids)


def _columns_of(values: NDArray[Any], positions: Sequence[int]) -> NDArray[Any]:
    if len(positions) == values.shape[1] and list(positions) == list(range(len(positions))):
        return values
    first, last = positions[0], positions[-1]
    if list(positions) == list(range(first, last + 1)):
        return values[:, first : last + 1]
    return values[:, list(positions)]
