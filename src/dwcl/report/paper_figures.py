"""The figures of the paper, drawn anew from the results of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from dwcl.report.figures import COLOURS, MARKS

_SIZE = 8.5
"""Width of a figure in inches: that of a page of text."""


def style(position: int) -> dict[str, Any]:
    """Return colour and mark of the n-th line: both differ, for readers without colours."""
    return {"color": COLOURS[position % len(COLOURS)], "marker": MARKS[position % len(MARKS)]}


def draw_differences(
    values: Mapping[tuple[str, str], float], data: Sequence[str], labels: Sequence[str], what: str
) -> Figure:
    """Draw how far each method lies above or below a reference, in points, by data set."""
    figure = Figure(figsize=(_SIZE, 4.2), layout="constrained")
    axes = figure.add_subplot()
    axes.axhline(0, color="black", linewidth=1)
    for position, label in enumerate(labels):
        shift = 0.6 * ((position + 0.5) / len(labels) - 0.5)
        xs = [i + shift for i, name in enumerate(data) if (name, label) in values]
        ys = [100 * values[name, label] for name in data if (name, label) in values]
        axes.plot(xs, ys, linestyle="none", markersize=6, label=label, **style(position))
    axes.set_xticks(range(len(data)), data)
    for edge in range(1, len(data)):
        axes.axvline(edge - 0.5, color="0.85", linewidth=0.8)
    axes.set_ylabel(what)
    axes.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def draw_trace(
    first: Mapping[str, float],
    weights: Mapping[str, Sequence[float]],
    scores: Mapping[str, Sequence[float]],
    title: str,
) -> Figure:
    """Draw each view's ACC at first, the weights of pairs and the ACC of views by iteration."""
    figure = Figure(figsize=(_SIZE * 1.3, 3.4), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    left.bar(range(len(first)), [100 * v for v in first.values()], color=COLOURS[0])
    left.set_xticks(range(len(first)), first, rotation=45, ha="right", fontsize=8)
    left.set_ylabel("ACC after pre-training, %")
    _lines(middle, weights, "weight of a pair")
    _lines(right, {name: [100 * v for v in vs] for name, vs in scores.items()}, "ACC of a view, %")
    figure.suptitle(title, fontsize=10)
    return figure


def draw_losses(losses: Mapping[str, Sequence[float]], ends: Sequence[int], title: str) -> Figure:
    """Draw losses over the epochs; lines mark where an iteration ends."""
    figure = Figure(figsize=(_SIZE, 3.6), layout="constrained")
    axes = figure.add_subplot()
    for position, (name, values) in enumerate(losses.items()):
        every = max(1, len(values) // 10)
        epochs = range(1, len(values) + 1)
        axes.plot(epochs, values, label=name, markevery=every, markersize=4, **style(position))
    for end in ends[:-1]:
        axes.axvline(end + 0.5, color="0.7", linewidth=0.8, linestyle=":")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("epoch")
    axes.set_ylabel("contrast of a pair")
    axes.set_title(title, fontsize=10)
    axes.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def draw_grid(
    values: Mapping[str, Mapping[tuple[float, float], float]],
    names: tuple[str, str],
    title: str,
) -> Figure:
    """Draw scores over two parameters as fields with their numbers, one panel for each score."""
    figure = Figure(figsize=(_SIZE, 4.0), layout="constrained")
    panels = figure.subplots(1, len(values), squeeze=False)[0]
    for axes, (metric, by_point) in zip(panels, values.items(), strict=True):
        xs, ys = (sorted({point[i] for point in by_point}) for i in (0, 1))
        table = np.array([[100 * by_point.get((x, y), np.nan) for x in xs] for y in ys])
        image = axes.imshow(table, origin="lower", cmap="cividis", aspect="auto")
        middle = (np.nanmin(table) + np.nanmax(table)) / 2
        for (row, column), value in np.ndenumerate(table):
            if np.isfinite(value):
                colour = "white" if value < middle else "black"
                text = f"{value:.1f}"
                axes.text(column, row, text, ha="center", va="center", color=colour, fontsize=8)
        axes.set_xticks(range(len(xs)), [f"{x:g}" for x in xs])
        axes.set_yticks(range(len(ys)), [f"{y:g}" for y in ys])
        axes.set_xlabel(names[0].replace("_", " "))
        axes.set_ylabel(names[1].replace("_", " "))
        axes.set_title(f"{metric.upper()}, %", fontsize=10)
        figure.colorbar(image, ax=axes, shrink=0.8)
    figure.suptitle(title, fontsize=10)
    return figure


def draw_maps(maps: Mapping[str, Mapping[str, Any]], title: str) -> Figure:
    """Draw samples in the plane, coloured by their classes, one panel for each method."""
    columns = min(len(maps), 4)
    rows = -(-len(maps) // columns)
    figure = Figure(figsize=(2.9 * columns, 3.0 * rows), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes in panels[len(maps) :]:
        axes.set_visible(False)
    for axes, (name, found) in zip(panels, maps.items(), strict=False):
        points, classes = np.asarray(found["points"]), np.asarray(found["classes"])
        for code in range(int(classes.max()) + 1):
            mark = MARKS[(code // len(COLOURS)) % len(MARKS)]
            chosen = points[classes == code]
            axes.scatter(
                chosen[:, 0], chosen[:, 1], s=5, marker=mark, linewidths=0,
                color=COLOURS[code % len(COLOURS)],
            )  # fmt: skip
        axes.set_xticks([])
        axes.set_yticks([])
        axes.set_title(name, fontsize=10)
    figure.suptitle(title, fontsize=10)
    return figure


def _lines(axes: Axes, lines: Mapping[str, Sequence[float]], what: str) -> None:
    for position, (name, values) in enumerate(lines.items()):
        axes.plot(range(len(values)), values, label=name, markersize=5, **style(position))
    axes.set_xlabel("iteration")
    axes.set_ylabel(what)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(fontsize=7, frameon=False)
