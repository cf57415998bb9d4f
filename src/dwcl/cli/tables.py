"""Tables and lines of results that several commands show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.box import SIMPLE
from rich.markup import escape
from rich.table import Table

ALL_VIEWS = "all views"
BASELINE_TITLES = {"bsv": "BSV", "concat-ae": "Concat-AE"}
BASELINE_CAPTION = "BSV, Concat-AE: pre-training alone, the best view and all views joined"
SCORE_TITLES = {"acc": "ACC", "nmi": "NMI", "ari": "ARI", "purity": "purity", "f": "F"}


def result_table(title: str) -> Table:
    """Start a table that still fits on 80 columns with all scores."""
    return Table(title=title, box=SIMPLE, title_justify="left", collapse_padding=True)


def views_table(facts: Mapping[str, Any]) -> Table:
    """List the views with quality, weight and, where labels were known, scores; then the whole.

    `facts` are those of ``run.json``.
    """
    scores: Mapping[str, Any] = facts.get("scores") or {}
    baselines: Mapping[str, Any] = scores.get("baselines", {})
    qualities = facts.get("view_quality") or {}
    table = result_table(f"{facts['method'].upper()}, {facts['n_clusters']} clusters")
    table.add_column("view", overflow="fold")
    for title in ("width", "quality", "weight", *(SCORE_TITLES.values() if scores else ())):
        table.add_column(title, justify="right", no_wrap=True)
    for name, width in facts["data"]["views"].items():
        best = name == facts.get("best_view")
        cells = [
            escape(f"{name} (best)" if best else name),
            str(width),
            _number(qualities.get(name)),
            _number(weight_with_best(facts, name)),
            *_scores(scores.get("views", {}).get(name)),
        ]
        table.add_row(*cells, style="bold" if best else None)
    table.add_section()
    total = str(sum(facts["data"]["views"].values()))
    table.add_row(ALL_VIEWS, total, "", "", *_scores(scores.get("clusters")))
    for key, title in BASELINE_TITLES.items():
        if key in baselines:
            table.add_row(title, "", "", "", *_scores(baselines[key]))
    if baselines:
        table.caption, table.caption_justify = BASELINE_CAPTION, "left"
    return table


def sizes_line(sizes: Mapping[str, int] | list[int]) -> str:
    """Word the sizes of the clusters."""
    listed = sizes.values() if isinstance(sizes, Mapping) else sizes
    return "sizes of the clusters: " + ", ".join(map(str, listed))


def assessment_line(record: Mapping[str, Any]) -> str:
    """Word an assessment of the views."""
    qualities = " ".join("–" if q is None else f"{q:.3f}" for q in record["quality"])
    return (
        f"after iteration {record['iteration']}: best view {record['best_view']}, "
        f"qualities {qualities}"
    )


def weight_with_best(facts: Mapping[str, Any], name: str) -> float | None:
    """Find the weight of the pair of a view with the best one."""
    wanted = {name, facts.get("best_view")}
    for pair in facts.get("pair_weights") or []:
        if set(pair["views"]) == wanted and pair["weight"] is not None:
            return float(pair["weight"]) / int(pair["terms"])
    return None


def _scores(row: Mapping[str, float] | None) -> list[str]:
    return [] if row is None else [_number(row.get(key)) for key in SCORE_TITLES]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"
