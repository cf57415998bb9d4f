"""What an experiment came to: a cell per method and data set, over the seeds."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dwcl.errors import SettingError
from dwcl.experiments.store import Row

METRICS = ("acc", "nmi", "ari", "purity", "f", "seconds", "peak_memory")
SCORES = METRICS[:5]
"""Metrics of which more is better, from 0 to 1, shown in percent."""


@dataclass(frozen=True)
class Cell:
    """The runs of one method on one data set.

    Attributes
    ----------
    values : dict of int to float
        The metric by seed, of the runs that have it.
    failed, open : int
        Runs that failed, and runs that are still to be done.
    """

    values: Mapping[int, float]
    failed: int = 0
    open: int = 0

    @property
    def mean(self) -> float | None:
        """Return the mean over the seeds, None without any run."""
        return statistics.mean(self.values.values()) if self.values else None

    @property
    def std(self) -> float | None:
        """Return the standard deviation over the seeds, None for fewer than two."""
        return statistics.stdev(self.values.values()) if len(self.values) > 1 else None


@dataclass(frozen=True)
class Summary:
    """Cells by data set (rows) and method (columns).

    Attributes
    ----------
    metric : str
    data, labels : tuple of str
        In the order of the experiment.
    cells : dict of (str, str) to Cell
        By data and label; a method need not be for all data.
    """

    metric: str
    data: tuple[str, ...]
    labels: tuple[str, ...]
    cells: Mapping[tuple[str, str], Cell]

    def complete(self) -> list[str]:
        """List the data sets on which every method has a mean."""
        return [
            data
            for data in self.data
            if all(
                (data, label) in self.cells and self.cells[data, label].values
                for label in self.labels
            )
        ]


def summarise(rows: Sequence[Row], metric: str) -> Summary:
    """Gather the cells of an experiment for one metric."""
    if metric not in METRICS:
        raise SettingError(f"There is no metric '{metric}'; there are {', '.join(METRICS)}.")
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.data, row.label), []).append(row)
    cells = {place: _cell(group, metric) for place, group in groups.items()}
    return Summary(
        metric,
        tuple(dict.fromkeys(row.data for row in rows)),
        tuple(dict.fromkeys(row.label for row in rows)),
        cells,
    )


def _cell(rows: Iterable[Row], metric: str) -> Cell:
    values, failed, to_do = {}, 0, 0
    for row in rows:
        value = value_of(row, metric)
        if value is not None:
            values[row.seed] = value
        failed += row.state == "failed"
        to_do += row.state == "open"
    return Cell(values, failed, to_do)


def value_of(row: Row, metric: str) -> float | None:
    """Return a metric of a run: a score, seconds in all, or the peak of memory in bytes."""
    if metric == "seconds":
        return row.facts.get("seconds_total")
    if metric == "peak_memory":
        return row.facts.get("peak_memory")
    return row.score(metric)


def words(cell: Cell | None, metric: str) -> str:
    """Word a cell: mean ± standard deviation, number of runs where it is not that of others."""
    if cell is None:
        return "–"
    parts = []
    if cell.mean is not None:
        scale = {"peak_memory": 1e-9}.get(metric, 100.0 if metric in SCORES else 1.0)
        digits = 2 if metric == "peak_memory" else 1
        text = f"{scale * cell.mean:.{digits}f}"
        if cell.std is not None:
            text += f" ± {scale * cell.std:.{digits}f}"
        parts.append(f"{text} ({len(cell.values)})")
    parts += [f"{cell.failed} failed"] if cell.failed else []
    parts += [f"{cell.open} open"] if cell.open else []
    return ", ".join(parts) or "no score"
