"""The picture of mean ranks: which methods differ, and which cannot be told apart."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dwcl.report.figures import COLOURS

_ROW, _BAR = 0.28, 0.12
"""Distances of names and of bars, in inches."""


def ranks_figure(ranks: Mapping[str, float], difference: float, title: str = "") -> Figure:
    """Draw mean ranks on a line, names at both sides, and bars over those that are near.

    Parameters
    ----------
    ranks : mapping of str to float
        Mean rank of each method, 1 the best.
    difference : float
        By how much two ranks must differ to count; NaN draws no bars.
    title : str
        Above the picture.
    """
    ordered = sorted(ranks.items(), key=lambda item: item[1])
    groups = indistinct(ordered, difference)
    half = math.ceil(len(ordered) / 2)
    height = 1.1 + _ROW * half + _BAR * len(groups)
    figure = Figure(figsize=(7.5, height), layout="constrained")
    axes = figure.add_subplot()
    low, high = 1.0, float(max(len(ordered), 2))
    top = _BAR * len(groups) + 0.15
    axes.set_xlim(low - 0.35 * (high - low), high + 0.35 * (high - low))
    axes.set_ylim(-_ROW * half - 0.1, top + 0.55)
    axes.axis("off")
    axes.plot([low, high], [top, top], color="black", linewidth=1)
    for tick in range(int(low), int(high) + 1):
        axes.plot([tick, tick], [top, top + 0.08], color="black", linewidth=1)
        axes.text(tick, top + 0.12, str(tick), ha="center", va="bottom", fontsize=9)
    for level, (first, last) in enumerate(groups):
        y = top - 0.12 - _BAR * level
        ends = [ordered[first][1] - 0.03, ordered[last][1] + 0.03]
        axes.plot(ends, [y, y], color=COLOURS[0], linewidth=4, solid_capstyle="round")
    for place, (name, rank) in enumerate(ordered):
        _name(axes, name, rank, place, half=half, top=top, ends=(low, high), n=len(ordered))
    if title:
        axes.set_title(title, fontsize=10)
    if math.isfinite(difference):
        axes.plot([low, low + difference], [top + 0.42, top + 0.42], color="black", linewidth=2)
        axes.text(
            low + difference / 2, top + 0.45, f"critical difference {difference:.2f}",
            ha="center", va="bottom", fontsize=8,
        )  # fmt: skip
    return figure


def indistinct(ordered: Sequence[tuple[str, float]], difference: float) -> list[tuple[int, int]]:
    """List the largest groups of methods, by first and last place, whose ranks are near."""
    groups: list[tuple[int, int]] = []
    if not math.isfinite(difference):
        return groups
    for first in range(len(ordered)):
        near = [
            i for i in range(first, len(ordered)) if ordered[i][1] - ordered[first][1] < difference
        ]
        last = near[-1]
        if last > first and (not groups or last > groups[-1][1]):
            groups.append((first, last))
    return groups


def _name(
    axes: Axes,
    name: str,
    rank: float,
    place: int,
    *,
    half: int,
    top: float,
    ends: tuple[float, float],
    n: int,
) -> None:
    """Write a name beside the line, the better half on the left, and lead a line to its rank."""
    left = place < half
    row = place if left else n - 1 - place
    y = -_ROW * (row + 0.5)
    x = ends[0] - 0.03 * (ends[1] - ends[0]) if left else ends[1] + 0.03 * (ends[1] - ends[0])
    axes.plot([rank, rank, x], [top, y, y], color="black", linewidth=0.8)
    axes.text(
        x, y, f"{name}  {rank:.2f} " if left else f" {rank:.2f}  {name}",
        ha="right" if left else "left", va="center", fontsize=9,
    )  # fmt: skip
