"""Labels that come in a file of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dwcl.data.readers import textfile
from dwcl.data.readers.base import Reading, check_exists, reading
from dwcl.data.readers.names import CLEAR_NAMES, ID_NAMES, plain
from dwcl.errors import DataError, FileError

SUFFIXES = (".csv", ".tsv", ".txt", ".npy", ".csv.gz", ".tsv.gz", ".txt.gz")


def as_numbers(texts: Sequence[str]) -> NDArray[Any]:
    """Return whole numbers where all texts are such, else the texts.

    Text that a number would not give back, such as ``007``, stays text.
    """
    try:
        numbers = np.array([int(text) for text in texts], dtype=np.int64)
    except (ValueError, OverflowError):
        return np.array(texts, dtype=np.str_)
    written = all(str(number) == text for number, text in zip(numbers, texts, strict=True))
    return numbers if written else np.array(texts, dtype=np.str_)


@dataclass(frozen=True)
class GivenLabels:
    """Labels from a file of their own.

    Attributes
    ----------
    values : array of m
        The labels in the order of the file.
    ids : array of m, optional
        The samples that they belong to.
    source : str
        Name of the file.
    noun : str
        What they are, where a table other than one of labels finds its samples in this way.
    """

    values: NDArray[Any]
    ids: NDArray[Any] | None
    source: str
    noun: str = "label"

    def arranged(self, sample_ids: NDArray[Any] | None, n: int) -> tuple[NDArray[Any], str]:
        """Return one label per sample, and in words how positions were found (perhaps empty).

        Labels without ids are in the order of the samples. Ids are those of the data; where these
        have none, only ids that count all samples, from 0 or from 1, tell which is which.
        """
        if self.ids is None:
            if len(self.values) != n:
                header = " If its first line is a header, name the column 'label'."
                may_be_header = self.noun == "label" and len(self.values) == n + 1
                raise DataError(
                    f"There are {len(self.values)} {self.noun}s in {self.source}, but the views "
                    f"have {n} samples; one {self.noun} per sample is expected."
                    + (header if may_be_header else "")
                )
            return self.values, ""
        place = {str(key): i for i, key in enumerate(self.ids.tolist())}
        if len(place) < len(self.ids):
            raise DataError(f"{self.source} has more than one {self.noun} for the same sample id.")
        if sample_ids is None:
            start = self._first_position(place, n)
            at = [place[str(start + i)] for i in range(n)]
            return self.values[at], f"its ids are the positions of the samples from {start}"
        missing = [key for key in map(str, sample_ids.tolist()) if key not in place]
        if missing:
            raise DataError(
                f"{self.source} has no {self.noun} for {len(missing)} of {n} samples, such as "
                f"'{missing[0]}'. One line of id,{self.noun} per sample is expected."
            )
        return self.values[[place[str(key)] for key in sample_ids.tolist()]], ""

    def _first_position(self, place: Mapping[str, int], n: int) -> int:
        """Return the number from which the ids count the samples, 0 or 1."""
        for start in (0, 1):
            if len(place) == n and all(str(start + i) in place for i in range(n)):
                return start
        raise DataError(
            f"{self.source} has {len(place)} {self.noun}s with ids such as "
            f"{next(iter(place))!r}, but the {n} samples of the data have no ids, so it is open "
            f"which {self.noun} belongs to which. Ids that are positions (0 to {n - 1}, or 1 to "
            f"{n}, each once) are understood; else give a file with one {self.noun} per line in "
            "the order of the samples."
        )


def read_labels(path: Path) -> GivenLabels:
    """Read labels from a text file (``label`` or ``id,label`` in each line) or a ``.npy`` file."""
    check_exists(path)
    if path.suffix.lower() == ".npy":
        with reading(path, "a NumPy array"):
            values = np.load(path, allow_pickle=False)
        if values.size != max(values.shape, default=1):
            raise DataError(
                f"{path} has shape {values.shape}; one label per sample is expected, shape (n,)."
            )
        return GivenLabels(values.ravel(), None, path.name)
    lines = list(textfile.records(path))
    if not lines:
        raise FileError(f"{path} has no lines. One label, or id and label, per line is expected.")
    rows = [row for _, row in lines]
    textfile.check_even(path, lines)
    header = _has_header(rows)
    names = [plain(cell) for cell in rows[0]] if header else []
    body = rows[1:] if header else rows
    id_at, label_at = _columns(path, names, len(rows[0]))
    values = as_numbers([row[label_at].strip() for row in body])
    ids = None if id_at is None else np.array([row[id_at].strip() for row in body], dtype=np.str_)
    return GivenLabels(values, ids, path.name)


def labels_of_array(values: Any) -> GivenLabels:
    """Take labels from memory: one per sample, in the order of the samples."""
    try:
        array = np.asarray(values)
    except (TypeError, ValueError):
        array = np.empty((0, 0))
    if array.ndim != 1:
        raise DataError(
            f"labels is {type(values).__name__} and not one value per sample. The name of a "
            "variable or column, a file, or an array of one label per sample (in their order) "
            "is expected."
        )
    return GivenLabels(array, None, "the given array")


def attach(reading: Reading, given: GivenLabels) -> Reading:
    """Add labels from a file of their own to what was read."""
    n = next(iter(reading.views.values())).shape[0]
    labels, remark = given.arranged(reading.sample_ids, n)
    line = f"labels: {given.source}, {len(np.unique(labels))} values"
    line += f" ({remark})" if remark else ""
    return replace(reading, labels=labels, lines=(*reading.lines, line))


def _has_header(rows: Sequence[Sequence[str]]) -> bool:
    first = [plain(cell) for cell in rows[0]]
    if CLEAR_NAMES & set(first):
        return True
    last_is_text = not textfile.is_number(rows[0][-1])
    return last_is_text and len(rows) > 1 and all(textfile.is_number(row[-1]) for row in rows[1:])


def _columns(path: Path, names: Sequence[str], width: int) -> tuple[int | None, int]:
    """Return the positions of the id and the label column."""
    if width == 1:
        return None, 0
    labels = [i for i, name in enumerate(names) if name in CLEAR_NAMES]
    ids = [i for i, name in enumerate(names) if name in ID_NAMES]
    if width == 2:
        label_at = labels[0] if labels else 1
        return 1 - label_at, label_at
    if len(labels) != 1:
        raise DataError(
            f"{path} has {width} columns and it is not clear which holds the labels. "
            "One column, or two (id,label), or a header with one column named 'label' is expected."
        )
    return (ids[0] if ids else None), labels[0]
