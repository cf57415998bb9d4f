"""Which samples have which views, from a file of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dwcl.data.readers import textfile
from dwcl.data.readers.base import check_exists
from dwcl.data.readers.labels import GivenLabels
from dwcl.data.readers.names import ID_NAMES, full_name, plain
from dwcl.errors import DataError, FileError, nearest

_CELLS = {"1": True, "0": False, "true": True, "false": False}


@dataclass(frozen=True)
class GivenObserved:
    """A table from a file: a column for each view, a row for each sample.

    Attributes
    ----------
    columns : mapping of str to array of m
        Truth values by view.
    rows : GivenLabels
        Numbers of the rows, by which they find their samples as labels do.
    """

    columns: Mapping[str, NDArray[np.bool_]]
    rows: GivenLabels

    def arranged(
        self, views: Sequence[str], sample_ids: NDArray[np.generic] | None, n: int, *, some: bool
    ) -> tuple[dict[str, NDArray[np.bool_]], str]:
        """Return truth values in the order of the samples, by view, and a line on them.

        Where only `some` views were asked for, columns of others are left aside; else a column of
        no view is refused. Views without a column have all samples.
        """
        order, remark = self.rows.arranged(sample_ids, n)
        found = {}
        for column, values in self.columns.items():
            name = full_name(column, views)
            if name is not None:
                found[name] = values[order]
            elif not some:
                raise DataError(
                    f"{self.rows.source} has a column '{column}', and no view is called so. "
                    f"{nearest(column, views)}"
                )
        if not found:
            raise DataError(
                f"{self.rows.source} has no column for any of the views {', '.join(views)}."
            )
        counts = ", ".join(f"{name} {n - int(v.sum())}" for name, v in found.items())
        line = f"missing: {counts} of {n} samples, by {self.rows.source}"
        return found, line + (f" ({remark})" if remark else "")


def read_observed(path: Path) -> GivenObserved:
    """Read a table of 0 and 1 from a text file with the names of the views in its first line."""
    check_exists(path)
    lines = textfile.without_comments(list(textfile.records(path)))
    if len(lines) < 2:
        raise FileError(
            f"{path} has {len(lines)} line(s). The names of the views in the first line, and a "
            "line of 0 and 1 for each sample are expected."
        )
    textfile.check_even(path, lines)
    names = [cell.strip() for cell in lines[0][1]]
    if any(name.lower() in _CELLS for name in names):
        raise DataError(f"{path} begins with values; its first line must name the views.")
    if len(set(names)) < len(names):
        raise DataError(f"{path} has two columns of the same name among: {', '.join(names)}.")
    ids = [i for i, name in enumerate(names) if plain(name) in ID_NAMES][:1]
    columns = {
        name: np.array([_truth(path, number, row[i]) for number, row in lines[1:]], dtype=np.bool_)
        for i, name in enumerate(names)
        if i not in ids
    }
    keys = np.array([row[ids[0]].strip() for _, row in lines[1:]], dtype=np.str_) if ids else None
    return GivenObserved(columns, GivenLabels(np.arange(len(lines) - 1), keys, path.name, "row"))


def _truth(path: Path, number: int, cell: str) -> bool:
    value = _CELLS.get(cell.strip().lower())
    if value is None:
        raise DataError(
            f"{path}, line {number}: '{cell}' is neither 1 (the sample has the view) nor 0."
        )
    return value
