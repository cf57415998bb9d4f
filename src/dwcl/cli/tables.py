"""Tables that commands show at their end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table

SCORE_TITLES = {"acc": "ACC", "nmi": "NMI", "ari": "ARI", "purity": "purity", "f": "F"}


def views_table(facts: Mapping[str, Any]) -> Table:
    """List the views with quality, weight and, where labels were known, scores; then the whole.

    `facts` are those of ``run.json``.
    """
    scores: Mapping[str, Any] = facts.get("scores") or {}
    table = Table(title=f"{facts['method'].upper()}, {facts['n_clusters']} clusters")
    for title in ("view", "features", "quality", "weight"):
        table.add_column(title, justify="left" if title == "view" else "right")
    if scores:
        for title in SCORE_TITLES.values():
            table.add_column(title, justify="right")
    qualities = facts.get("view_quality") or {}
    for name, width in facts["data"]["views"].items():
        best = name == facts.get("best_view")
        cells = [
            f"{name} (best)" if best else name,
            str(width),
            _number(qualities.get(name)),
            _number(weight_with_best(facts, name)),
            *_scores(scores.get("views", {}).get(name), shown=bool(scores)),
        ]
        table.add_row(*cells, style="bold" if best else None)
    table.add_section()
    total = str(sum(facts["data"]["views"].values()))
    for title, key in (
        ("all views: the clusters", "clusters"),
        ("best view's auto-encoder alone (BSV)", "bsv"),
        ("auto-encoders joined (Concat-AE)", "concat-ae"),
    ):
        row = scores if key == "clusters" else scores.get("baselines", {})
        if key in row or key == "clusters":
            cells = _scores(row.get(key), shown=bool(scores))
            table.add_row(title, total if key == "clusters" else "", "", "", *cells)
    return table


def sizes_line(sizes: Mapping[str, int] | list[int]) -> str:
    """Word the sizes of the clusters."""
    listed = sizes.values() if isinstance(sizes, Mapping) else sizes
    return "sizes of the clusters: " + ", ".join(map(str, listed))


def weight_with_best(facts: Mapping[str, Any], name: str) -> float | None:
    """Find the weight of the pair of a view with the best one."""
    wanted = {name, facts.get("best_view")}
    for pair in facts.get("pair_weights") or []:
        if set(pair["views"]) == wanted:
            return float(pair["weight"]) / int(pair["terms"])
    return None


def _scores(row: Mapping[str, float] | None, *, shown: bool) -> list[str]:
    if not shown:
        return []
    return [_number((row or {}).get(key)) for key in SCORE_TITLES]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"
