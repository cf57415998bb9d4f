"""Tables in text files: one file with all views, told apart by column prefixes, or with one."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from dwcl.data.readers.base import Reading, Request, register
from dwcl.data.readers.labels import as_numbers
from dwcl.data.readers.tabular import (
    Roles,
    Table,
    assign_roles,
    check_ids,
    samples_in_columns,
    single,
)
from dwcl.data.readers.textfile import (
    Record,
    find_header,
    is_missing,
    is_number,
    is_text_column,
    records,
    uneven,
    without_comments,
)
from dwcl.errors import DataError, FileError

SUFFIXES = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz")

_SNIFFED_ROWS = 100


@register("delimited text", suffixes=SUFFIXES)
def read_csv(path: Path, request: Request) -> Reading:
    """Read one table of text."""
    table = read_table(path, request, in_columns=samples_in_columns(request))
    return single(table, request).of_type("delimited text")


def read_table(path: Path, request: Request, *, in_columns: bool) -> Table:
    """Read a text file and find its columns of ids, labels and numbers."""
    lines = records(path)
    head = without_comments(list(islice(lines, _SNIFFED_ROWS)))
    if not head:
        raise FileError(f"{path} has no lines. A table of samples × features is expected.")
    names = find_header([row for _, row in head])
    body = head if names is None else head[1:]
    if not body:
        raise DataError(
            f"{path} has a header but no rows below it. One row per sample is expected."
        )
    width = len(names) if names is not None else len(body[0][1])
    columns = [[row[j : j + 1] for _, row in body] for j in range(width)]
    roles = assign_roles(
        names,
        [is_text_column(column) for column in columns],
        request,
        whole=[all(_is_whole(cell) for cell in column) for column in columns],
        in_columns=in_columns,
    )
    if not roles.features:
        raise DataError(
            f"{path} has no columns of features beside those of ids and labels. Numbers are "
            "expected, divided by commas, semicolons or tabs."
        )
    return _table(path, names, roles, width, chain(body, lines))


def _table(
    path: Path, names: Sequence[str] | None, roles: Roles, width: int, lines: Iterable[Record]
) -> Table:
    """Read the rows in one pass; the cells of features go straight into one block of numbers."""
    pick = _picker(roles.features)
    numbers = array("d")
    ids: list[str] = []
    labels: list[str] = []
    for number, row in lines:
        if len(row) != width:
            raise uneven(path, number, len(row), width)
        try:
            numbers.extend(map(float, pick(row)))
        except ValueError:
            # Some cells of the row are in already.
            del numbers[len(numbers) // len(roles.features) * len(roles.features) :]
            numbers.extend(_with_missing(path, number, row, names, roles.features))
        if roles.ids is not None:
            ids.append(row[roles.ids].strip())
        if roles.labels is not None:
            labels.append(row[roles.labels].strip())
    sample_ids = as_numbers(ids) if ids else None
    if sample_ids is not None and roles.ids is not None:
        check_ids(sample_ids, f"{path}: {_column(names, roles.ids)}")
    return Table(
        values=np.frombuffer(numbers, dtype=np.float64).reshape(-1, len(roles.features)),
        names=None if names is None else tuple(names[j].strip() for j in roles.features),
        ids=sample_ids,
        labels=as_numbers(labels) if labels else None,
        label_name=None if names is None or roles.labels is None else names[roles.labels],
    )


def _picker(features: Sequence[int]) -> Callable[[Sequence[str]], Sequence[str]]:
    """Return the fastest way to pick the cells of features from a row."""
    first, last = features[0], features[-1]
    if last - first + 1 == len(features):
        return itemgetter(slice(first, last + 1))
    pick: Any = itemgetter
    return pick(*features)  # type: ignore[no-any-return]


def _with_missing(
    path: Path,
    number: int,
    row: Sequence[str],
    names: Sequence[str] | None,
    features: Sequence[int],
) -> Iterator[float]:
    """Read a row in which some cells are no numbers: marks of missing values become NaN."""
    for j in features:
        if is_number(row[j]):
            yield float(row[j])
        elif is_missing(row[j]):
            yield float("nan")
        else:
            comma = " Write decimals with a point." if is_number(row[j].replace(",", ".")) else ""
            raise DataError(
                f"{path}, line {number}, {_column(names, j)}: {row[j]!r} is not a number.{comma} "
                "Encode text as numbers, or name the columns of ids (id_column) and classes "
                "(labels)."
            )


def _column(names: Sequence[str] | None, j: int) -> str:
    return f"column {j + 1}" if names is None or not names[j] else f"column '{names[j]}'"


def _is_whole(cell: Sequence[str]) -> bool:
    return not cell or is_missing(cell[0]) or (is_number(cell[0]) and float(cell[0]) % 1 == 0)
