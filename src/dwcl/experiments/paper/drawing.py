"""From the runs of an item to its figure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dwcl.errors import DataError
from dwcl.experiments.paper.items import Item
from dwcl.experiments.store import Row, Store
from dwcl.experiments.summary import summarise

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def figures_of(item: Item, rows: Sequence[Row], store: Store) -> dict[str, Figure]:
    """Draw an item: one figure, or one for each data set, by name.

    Raises
    ------
    DataError
        If it is a table, or there are no runs to draw.
    """
    done = [row for row in rows if row.state == "done"]
    if item.kind != "figure":
        raise DataError(f"'{item.name}' is a table; dwcl paper show {item.name} prints it.")
    if not done:
        raise DataError(f"There are no runs of '{item.name}' yet: dwcl paper run {item.name}.")
    if item.task == "differences":
        return {"": _differences(item, done)}
    makers = {"trace": _trace, "losses": _losses, "grid": _grid, "maps": _maps}
    by_data = {
        name: [row for row in done if row.data == name]
        for name in dict.fromkeys(row.data for row in done)
    }
    return {name: makers[item.task](item, group, store) for name, group in by_data.items()}


def _differences(item: Item, rows: Sequence[Row]) -> Figure:
    from dwcl.report.paper_figures import draw_differences

    summary = summarise(rows, "acc")
    reference = str(item.reference)
    means = {place: cell.mean for place, cell in summary.cells.items() if cell.mean is not None}
    values = {
        (data, label): mean - means[data, reference]
        for (data, label), mean in means.items()
        if label != reference and (data, reference) in means
    }
    labels = [label for label in summary.labels if label != reference]
    return draw_differences(values, summary.data, labels, "ACC minus that of the best view, points")


def _first_run(rows: Sequence[Row], label: str) -> Row:
    return next((row for row in rows if row.label == label), rows[0])


def _trace(item: Item, rows: Sequence[Row], store: Store) -> Figure:
    """Choose the two best and the two worst views after pre-training, and pairs among them."""
    from dwcl.report.paper_figures import draw_trace

    row = _first_run(rows, "pairwise")
    by_iteration: list[dict[str, Any]] = row.facts["scores"]["views_by_iteration"]
    first = {view: scores["acc"] for view, scores in by_iteration[0].items()}
    ordered = sorted(first, key=lambda view: -first[view])
    best, worst = ordered[:2], ordered[2:][-2:]
    chosen = [*best, *worst]
    wanted = [worst, best, *([best[0], view] for view in worst)]
    weights: dict[str, list[float]] = {}
    for record in store.history(row.key):
        if record["event"] != "assessment":
            continue
        by_pair = {frozenset(pair["views"]): pair["weight"] for pair in record["pairs"]}
        for pair in wanted:
            if frozenset(pair) in by_pair and len(set(pair)) == 2:
                weights.setdefault(" – ".join(pair), []).append(by_pair[frozenset(pair)])
    scores = {view: [found[view]["acc"] for found in by_iteration] for view in chosen}
    return draw_trace(first, weights, scores, f"{item.title} ({row.data})")


def _losses(item: Item, rows: Sequence[Row], store: Store) -> Figure:
    from dwcl.report.paper_figures import draw_losses

    row, losses, ends, pairs, count = rows[0], {}, [], [], 0  # type: ignore[var-annotated]
    phase = ""
    for record in store.history(row.key):
        if record["event"] == "assessment":
            pairs = [" – ".join(pair["views"]) for pair in record["pairs"]]
        elif record["event"] == "epoch" and "contrast" in record:
            if record["phase"] != phase and count:
                ends.append(count)
            phase, count = record["phase"], count + 1
            for name in pairs:
                losses.setdefault(name, [math.nan] * (count - 1))
            for name, values in losses.items():
                value = dict(zip(pairs, record["contrast"], strict=True)).get(name, math.nan)
                values.append(value)
    return draw_losses(losses, [*ends, count], f"{item.title} ({row.data})")


def _grid(item: Item, rows: Sequence[Row], store: Store) -> Figure:  # noqa: ARG001 - all are alike
    from dwcl.report.paper_figures import draw_grid

    names = (item.axes[0].parameter, item.axes[1].parameter)
    values: dict[str, dict[tuple[float, float], float]] = {}
    for metric in item.metrics:
        summary = summarise(rows, metric)
        points: dict[str, tuple[float, float]] = {}
        for row in rows:
            settings = row.facts["settings"]
            points[row.label] = (float(settings[names[0]]), float(settings[names[1]]))
        values[metric] = {
            points[label]: cell.mean
            for (_, label), cell in summary.cells.items()
            if cell.mean is not None
        }
    return draw_grid(values, names, f"{item.title} ({rows[0].data})")


def _maps(item: Item, rows: Sequence[Row], store: Store) -> Figure:  # noqa: ARG001 - all are alike
    from dwcl.report.paper_figures import draw_maps

    maps = {}
    for row in rows:
        acc = row.score("acc")
        name = row.label if acc is None else f"{row.label}, ACC {100 * acc:.1f}"
        if row.seed == rows[0].seed:
            maps[name] = row.facts["map"]
    return draw_maps(maps, f"{item.title} ({rows[0].data})")
