"""The paper's numbers beside ours, and whether they agree."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from dwcl.data.catalogue import find
from dwcl.experiments.paper.items import Item, recipe_of
from dwcl.experiments.paper.making import how_to_get, missing
from dwcl.experiments.paper.numbers import PaperNumber, PaperTable, table
from dwcl.experiments.recipes import recipe
from dwcl.experiments.store import Row

Verdict = Literal["within one std", "within 2 points", "not reproduced", "as stated", "differs", ""]

NEAR = 0.02
"""Difference of a score that still counts as near."""
SCORES = ("acc", "nmi", "ari", "recall", "f1", "silhouette", "improvement")


@dataclass(frozen=True)
class Line:
    """One number of the paper beside ours.

    Attributes
    ----------
    data, row, metric : str
        Where it belongs; `row` has the position of the view in tables by view.
    paper : PaperNumber or None
        None where the paper has no such number: another data set, a dash, a method of ours.
    values : tuple of float
        Ours, over the seeds.
    remark : str
        Why there is none of ours, or what a reader must know.
    """

    data: str
    row: str
    metric: str
    paper: PaperNumber | None
    values: tuple[float, ...] = ()
    remark: str = ""

    @property
    def mean(self) -> float | None:
        """Return our mean."""
        return statistics.mean(self.values) if self.values else None

    @property
    def std(self) -> float | None:
        """Return our standard deviation over the seeds."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    @property
    def difference(self) -> float | None:
        """Return ours minus the paper's."""
        if self.mean is None or self.paper is None or self.metric == "time":
            return None  # seconds of another machine tell nothing
        return self.mean - self.paper.amount

    @property
    def verdict(self) -> Verdict:
        """Return whether ours is the paper's number."""
        if self.difference is None:
            return ""
        if self.metric not in SCORES:
            return "as stated" if self.difference == 0 else "differs"
        if self.std is not None and abs(self.difference) <= self.std:
            return "within one std"
        return "within 2 points" if abs(self.difference) <= NEAR else "not reproduced"


def lines_of(item: Item, rows: Sequence[Row]) -> list[Line]:
    """Set the paper's numbers of an item beside those of its runs.

    The paper's data sets that are not here keep their lines, with what it takes to have them.
    """
    printed = table(item.numbers) if item.numbers else None
    if item.task == "facts":
        return _fact_lines(printed) if printed else []
    found: dict[tuple[str, str, str], list[float]] = {}
    for row in rows:
        for (name, metric), value in _values(item, row).items():
            found.setdefault((row.data, name, metric), []).append(value)
    lines = _printed_lines(item, printed, found) if printed else []
    known = {(line.data, line.row, line.metric) for line in lines}
    lines += [
        Line(data, name, metric, None, tuple(values))
        for (data, name, metric), values in found.items()
        if (data, name, metric) not in known
    ]
    return [*lines, *_failures(rows)]


def _printed_lines(
    item: Item, printed: PaperTable, found: Mapping[tuple[str, str, str], list[float]]
) -> list[Line]:
    absent = missing(item.paper_data) if item.task != "time" else {}
    lines = []
    for number in printed.numbers:
        name = _row_name(number.row or "", number.view)
        if number.metric not in item.metrics or number.dataset not in item.paper_data:
            continue
        values = tuple(found.get((number.dataset, name, number.metric), ()))
        lacking = "data are not here" if number.dataset in absent else "no run yet"
        remark = "" if values else lacking
        lines.append(Line(number.dataset, name, number.metric, number, values, remark))
    return lines


def _failures(rows: Sequence[Row]) -> list[Line]:
    return [
        Line(row.data, row.label, "", None, (), f"seed {row.seed} failed: {row.error}")
        for row in rows
        if row.state == "failed"
    ]


def _row_name(row: str, view: int | None) -> str:
    return row if view is None else f"{row}, view {view}"


def _values(item: Item, row: Row) -> dict[tuple[str, str], float]:
    """Read what an item measures off one run: by row of the table, and metric."""
    if row.state != "done":
        return {}
    readers: dict[str, Callable[[Item, Row], dict[tuple[str, str], float]]] = {
        "time": _time,
        "probe": _probe,
        "views": _views,
    }
    return readers.get(item.task, _scores)(item, row)


def _scores(item: Item, row: Row) -> dict[tuple[str, str], float]:
    values = {metric: row.score(metric) for metric in item.metrics}
    return {(row.label, metric): value for metric, value in values.items() if value is not None}


def _time(item: Item, row: Row) -> dict[tuple[str, str], float]:  # noqa: ARG001 - all are alike
    """Add up the phases of contrastive learning: what comes before them is not compared."""
    seconds: Mapping[str, float] = row.facts["seconds"]
    total = sum(value for phase, value in seconds.items() if "pretrain" not in phase)
    return {(row.label, "time"): total}


def _probe(item: Item, row: Row) -> dict[tuple[str, str], float]:
    found = row.facts.get("probe", {})
    return {
        (row.label, metric): found[f"{metric}_mean"]
        for metric in item.metrics
        if f"{metric}_mean" in found
    }


def _views(item: Item, row: Row) -> dict[tuple[str, str], float]:
    """Read scores of the views; after pre-training their silhouettes too."""
    by_view: Mapping[str, Any] = row.facts.get("views", {})
    values = {}
    for position, (view, scores) in enumerate(by_view.items(), 1):
        name = _row_name(row.label, position)
        values[name, "acc"] = scores["acc"]
        if row.label == item.reference and row.facts.get("view_quality"):
            values[name, "silhouette"] = row.facts["view_quality"][view]
    return values


def improvements(item: Item, lines: Sequence[Line]) -> list[Line]:
    """Add how much each view gained over its pre-trained form: relative, of the mean ACC."""
    acc = {(line.data, line.row): line.mean for line in lines if line.metric == "acc"}
    gained: dict[tuple[str, str], float] = {}
    for (data, row), mean in acc.items():
        label, _, view = row.partition(", view ")
        before = acc.get((data, _row_name(str(item.reference), int(view)))) if view else None
        if label != item.reference and mean is not None and before:
            gained[data, row] = mean / before - 1
    kept = []
    for line in lines:
        value = gained.pop((line.data, line.row), None) if line.metric == "improvement" else None
        kept.append(
            line if value is None else Line(line.data, line.row, line.metric, line.paper, (value,))
        )
    rest = [Line(data, row, "improvement", None, (v,)) for (data, row), v in gained.items()]
    return [*kept, *rest]


def ratios(lines: Sequence[Line], reference: str) -> list[Line]:
    """Return each time as a multiple of that of a row: what two machines have in common."""
    times = {(line.data, line.row): line for line in lines if line.metric == "time"}
    found = []
    for (data, row), line in times.items():
        other = times.get((data, reference))
        if row == reference or other is None:
            continue
        ours = () if not (line.mean and other.mean) else (line.mean / other.mean,)
        remark = ""
        if line.paper is not None and other.paper is not None:
            remark = f"the paper: {line.paper.amount / other.paper.amount:.2f}"
        found.append(Line(data, row, f"time over {reference}'s", None, ours, remark))
    return found


def _fact_lines(printed: PaperTable) -> list[Line]:
    """Set what the paper says of data and settings beside the catalogue and the recipes."""
    lines = []
    for number in printed.numbers:
        value = _fact(number)
        values = () if value is None else (float(value),)
        row = "" if number.view is None else f"view {number.view}"
        remark = "" if values else "not known here"
        lines.append(Line(number.dataset, row, number.metric, number, values, remark))
    return lines


def _fact(number: PaperNumber) -> float | None:
    entry = find(number.dataset)
    of_data: dict[str, float | None] = {
        "samples": entry.n,
        "views": None if entry.widths is None else len(entry.widths),
        "classes": entry.classes,
    }
    if number.metric in of_data:
        return of_data[number.metric]
    if number.metric == "width" and number.view is not None:
        return None if entry.widths is None else entry.widths[number.view - 1]
    name = recipe_of("dwcl", number.dataset)
    if name is None:
        return None
    from dwcl.methods.dwcl import DWCL

    value: float | None = recipe(name).settings.get(
        number.metric, DWCL().get_params().get(number.metric)
    )
    return value


def words(line: Line) -> tuple[str, str, str, str]:
    """Word the paper's number, ours, the difference and the verdict or what is to be said."""
    scale, digits = (100.0, 1) if line.metric in SCORES else (1.0, 0)
    if line.metric == "silhouette":
        scale = 10.0  # as the paper prints them
    if line.metric.startswith("time"):
        digits = 2
    ours = "–"
    if line.mean is not None:
        ours = f"{scale * line.mean:.{digits}f}"
        if line.std is not None:
            ours += f" ± {scale * line.std:.{digits}f}"
        ours += f" ({len(line.values)})"
    difference = "" if line.difference is None else f"{scale * line.difference:+.{digits}f}"
    paper = "–" if line.paper is None else str(line.paper)
    return paper, ours, difference, line.verdict or line.remark


def absent_data(item: Item) -> dict[str, str]:
    """Say of the paper's data sets of an item that are not here how to bring them."""
    if item.task in ("facts", "time"):
        return {}
    return {name: how_to_get(name) for name in missing(item.paper_data)}
