"""Delimited text as rows of cells: encodings, compression, delimiters, headers and even lines."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import IO, TypeAlias

from dwcl.data.readers.base import damaged
from dwcl.data.readers.names import ID_NAMES, plain
from dwcl.errors import DataError, FileError

Record: TypeAlias = tuple[int, list[str]]
"""The number of a line in its file, and its cells."""

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "?"})
"""Cells, in lower case, that stand for a value that is not there."""

_SNIFFED_LINES = 20


def records(path: Path) -> Iterator[Record]:
    """Yield the lines of a text file that are not blank, split into cells.

    The delimiter (tab, semicolon or comma) is found from the first lines; ``.gz``, byte order
    marks and quotes are understood.
    """
    try:
        with path.open("rb") as raw:
            yield from _records(raw)
    except UnicodeError:
        raise FileError(
            f"{path} is not a text file in UTF-8. Save the table as UTF-8 text."
        ) from None
    except (OSError, EOFError, zlib.error, csv.Error) as error:
        raise damaged(path, "a text table", error) from error


def _records(raw: IO[bytes]) -> Iterator[Record]:
    unpacked: IO[bytes] = raw
    if raw.peek(2)[:2] == b"\x1f\x8b":  # type: ignore[attr-defined]
        unpacked = io.BufferedReader(gzip.GzipFile(fileobj=raw))
    mark = unpacked.peek(2)[:2]  # type: ignore[attr-defined]
    encoding = "utf-16" if mark in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    with io.TextIOWrapper(unpacked, encoding=encoding, newline="") as text:
        first = list(islice(text, _SNIFFED_LINES))
        reader = csv.reader(chain(first, text), delimiter=_delimiter(first), skipinitialspace=True)
        for row in reader:
            if row:
                yield reader.line_num, row


def _delimiter(lines: Sequence[str]) -> str:
    """Choose the delimiter that cuts all lines alike; a comma may also be a decimal mark."""
    counts = {}
    for mark in ("\t", ";", ","):
        found = [len(row) for row in csv.reader(lines, delimiter=mark) if row]
        counts[mark] = found
        # A header without a name for the row names is one cell shorter than the other lines.
        if found and min(found) > 1 and len(set(found[1:])) <= 1 and 0 <= found[-1] - found[0] <= 1:
            return mark
    return max(reversed(counts), key=lambda mark: sum(counts[mark]))


def is_number(cell: str) -> bool:
    """Tell whether a cell holds a number."""
    try:
        float(cell)
    except ValueError:
        return False
    return True


def is_missing(cell: str) -> bool:
    """Tell whether a cell stands for a value that is not there."""
    return cell.strip().lower() in MISSING


def is_text(cell: str) -> bool:
    """Tell whether a cell holds neither a number nor a mark for a missing one."""
    return not is_number(cell) and not is_missing(cell)


def check_even(path: Path, lines: Sequence[Record]) -> None:
    """Refuse lines of different lengths."""
    for number, row in lines:
        if len(row) != len(lines[0][1]):
            raise uneven(path, number, len(row), len(lines[0][1]))


def uneven(path: Path, number: int, found: int, expected: int) -> DataError:
    """Word the error about a line with too many or too few cells."""
    return DataError(
        f"{path}, line {number}: {found} cells, but the lines before have {expected}. "
        "Every line must have the same number of cells; quote cells that contain the delimiter."
    )


def without_comments(lines: Sequence[Record]) -> list[Record]:
    """Drop lines before the table that begin with ``#``; one that is as long is its header."""
    lines = list(lines)
    while len(lines) > 1 and lines[0][1][0].startswith("#"):
        (number, row), (_, following) = lines[:2]
        if len(row) == len(following) and not following[0].startswith("#"):
            return [(number, [row[0].lstrip("# "), *row[1:]]), *lines[1:]]
        del lines[0]
    return lines


def find_header(rows: Sequence[list[str]]) -> list[str] | None:
    """Return the names in the first of some rows, if it holds names.

    Rows that begin with a row name which the header leaves out get an empty name for it.
    """
    first, body = rows[0], rows[1:]
    if body and len(body[0]) == len(first) + 1 > 2:
        return ["", *first]
    if not body:
        return first if any(is_text(cell) for cell in first[1:] or first) else None
    number_columns = [
        j for j in range(len(first)) if not is_text_column([row[j : j + 1] for row in body])
    ]
    ids_named = plain(first[0]) in ID_NAMES
    heads = [first[j] for j in number_columns if j or not ids_named]
    # A single word among numbers is rather an error in the first row of values than a name.
    most_are_names = sum(is_text(cell) for cell in heads) * 2 > len(heads)
    if most_are_names or not heads or _counts_up(heads, at_least=1 if ids_named else 3):
        return first
    return None


def is_text_column(cells: Sequence[Sequence[str]]) -> bool:
    """Tell whether most of the cells of a column (each in a list of one or none) are text."""
    found = [cell[0] for cell in cells if cell and not is_missing(cell[0])]
    return sum(not is_number(cell) for cell in found) * 2 > len(found)


def _counts_up(heads: Sequence[str], *, at_least: int) -> bool:
    """Tell column names 0, 1, 2, … (or 1, 2, 3, …), as data frames write them, from values."""
    counts = ([str(start + i) for i in range(len(heads))] for start in (0, 1))
    return len(heads) >= at_least and list(heads) in counts
