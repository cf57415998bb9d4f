"""Labels among the variables of a file: vectors, vectors repeated per view, and one-hot tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dwcl.data.readers.names import CLEAR_NAMES, POSSIBLE_NAMES, full_name, leaf, plain
from dwcl.errors import DataError, nearest


@dataclass(frozen=True)
class LabelVector:
    """A variable that can be the labels.

    Attributes
    ----------
    name : str
        The variable.
    values : array of n
        One value per sample, as in the file: counted from 0, from 1, or text.
    form : str
        A remark about its form in the file, perhaps empty.
    clear : bool
        Whether its name says that it holds labels.
    trouble : str
        Why it cannot be used, should it be chosen; perhaps empty.
    """

    name: str
    values: NDArray[Any]
    form: str
    clear: bool
    trouble: str = ""

    def line(self) -> str:
        """Say in one line what was found."""
        count = len(np.unique(self.values))
        form = f" ({self.form})" if self.form else ""
        return f"labels: {self.name}, {count} value{'' if count == 1 else 's'}{form}"


def label_vectors(variables: Mapping[str, Any], views: Sequence[str]) -> list[LabelVector]:
    """Return the variables that can be labels and are no views, the clearest names first."""
    wanted = set(views)
    found = []
    for name, value in variables.items():
        word = plain(leaf(name))
        clear = word in CLEAR_NAMES
        possible = word in POSSIBLE_NAMES or word.endswith(("label", "labels", "truth"))
        if (clear or possible) and not {name, leaf(name)} & wanted:
            vector = _as_labels(name, value, clear=clear)
            if vector is not None:
                found.append(vector)
    return sorted(found, key=lambda vector: not vector.clear)


def choose_labels(vectors: Sequence[LabelVector], lengths: set[int]) -> LabelVector | None:
    """Choose the labels whose length is a number of samples that the views can have.

    A clear name counts more than a possible one. Labels with a clear name and another length are
    returned too, if there are no better ones, for the error that they cause; a vector that merely
    could be labels is passed over then.
    """
    fitting = [vector for vector in vectors if len(vector.values) in lengths]
    if not fitting:
        return next((vector for vector in vectors if vector.clear), None)
    first = fitting[0]
    if first.trouble:
        raise DataError(first.trouble)
    for other in fitting[1:]:
        if other.clear == first.clear and not _same_classes(first.values, other.values):
            raise DataError(
                f"The labels can be read in two ways: {first.name} or {other.name}, which differ. "
                f"Say which with labels, for example labels='{first.name}'."
            )
    return first


def labels_asked_for(variables: Mapping[str, Any], name: str) -> LabelVector:
    """Return the labels in the variable that the user names."""
    full = full_name(name, variables)
    if full is None:
        raise DataError(
            f"labels='{name}' is neither a variable of the data nor a file. "
            f"{nearest(name, variables)}"
        )
    vector = _as_labels(full, variables[full], clear=True, asked_for=True)
    if vector is None:
        raise DataError(
            f"'{name}' does not hold labels: one value per sample, a cell of such vectors that "
            "are all the same, or a table of zeros with a single one per sample is expected."
        )
    if vector.trouble:
        raise DataError(vector.trouble)
    return vector


def _as_labels(
    name: str, value: Any, *, clear: bool, asked_for: bool = False
) -> LabelVector | None:
    if isinstance(value, list):
        return _from_cell(name, value, clear=clear)
    if sp.issparse(value) and (1 in value.shape or _may_be_one_hot(value)):
        value = value.toarray()
    if not isinstance(value, np.ndarray) or value.size == 0 or value.dtype.kind not in "biufUS":
        return None
    if value.size == max(value.shape, default=0):
        values = value.ravel()
        # A single number is rather a count of something than the label of the only sample.
        if asked_for or _are_classes(values):
            return LabelVector(name, values, "", clear and len(values) > 1)
        return None
    classes = _from_one_hot(value) if clear else None
    if classes is None:
        return None
    return LabelVector(name, classes, "one-hot in the file", clear)


def _from_cell(name: str, cell: list[Any], *, clear: bool) -> LabelVector | None:
    """Read a cell with one value per sample, or with the same vector for each view."""
    parts = [_as_labels(name, part, clear=False) for part in cell]
    vectors = [part.values for part in parts if part is not None]
    if not vectors or len(vectors) < len(cell):
        return None
    if all(len(vector) == 1 for vector in vectors):
        return LabelVector(name, np.concatenate(vectors), "", clear)
    if all(np.array_equal(vectors[0], vector) for vector in vectors[1:]):
        form = "the same for every view" if len(vectors) > 1 else ""
        return LabelVector(name, vectors[0], form, clear)
    trouble = (
        f"The cell '{name}' holds {len(vectors)} vectors of labels that are not the same; all "
        "views must describe the same samples. Give the labels in a file of their own with labels."
    )
    return LabelVector(name, vectors[0], "", clear, trouble)


def _are_classes(values: NDArray[Any]) -> bool:
    """Tell whole numbers (or none, NaN) and text from measured values."""
    if values.dtype.kind != "f":
        return True
    known = values[~np.isnan(values)]
    return bool(np.all(known == np.floor(known)))


def _from_one_hot(table: NDArray[Any]) -> NDArray[Any] | None:
    """Return the position of the single one in each row (or column, if there are more columns)."""
    if table.ndim != 2 or table.dtype.kind not in "biuf" or not np.isin(table, (0, 1)).all():
        return None
    rows = table if table.shape[0] >= table.shape[1] else table.T
    if not np.all(rows.sum(axis=1) == 1):
        return None
    return np.asarray(np.argmax(rows, axis=1))


def _may_be_one_hot(table: Any) -> bool:
    """Tell a sparse one-hot table, with one entry per sample, from those too large to unfold."""
    return bool(table.nnz == max(table.shape))


def _same_classes(first: NDArray[Any], second: NDArray[Any]) -> bool:
    """Tell whether two vectors group the samples alike, whatever the names of the groups."""
    if first.shape != second.shape:
        return False
    _, a = np.unique(first, return_inverse=True)
    _, b = np.unique(second, return_inverse=True)
    pairs = len(np.unique(a.astype(np.int64) * (int(b.max()) + 1) + b))
    return bool(pairs == a.max() + 1 == b.max() + 1)
