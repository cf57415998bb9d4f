"""Pictures of a run, drawn from its results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE

from dwcl.files import atomic

# Okabe and Ito's colours, which colour-blind readers can tell apart, and their darker kin for
# more than eight groups. Marks change after each round of colours.
COLOURS = (
    "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9",
    "#D55E00", "#8A7F00", "#3F3F3F", "#7A4FA3", "#8C5A3C",
)  # fmt: skip
MARKS = ("o", "s", "^", "D", "v", "P", "X")
MAP_SAMPLES = 3000
"""Samples on a map; with more, a seeded sample of so many is shown."""


def save_summary(
    target: Path, embedding: NDArray[np.float32], labels: NDArray[np.int64], run: Path
) -> Path:
    """Draw a run on one sheet: a map of its clusters, the quality of the views, the losses.

    Parameters
    ----------
    target : Path
        Picture file to write; its ending decides the format.
    embedding : ndarray, n × d
        What was clustered.
    labels : ndarray of n
        The clusters.
    run : Path
        The run folder, for the history.
    """
    from dwcl.storage.run import read_run

    facts = read_run(run)
    figure = summary_figure(embedding, labels, facts)
    with atomic(target) as temporary:
        figure.savefig(temporary, dpi=150, format=target.suffix.lstrip(".") or "png")
    return target


def summary_figure(
    embedding: NDArray[np.float32], labels: NDArray[np.int64], facts: dict[str, Any]
) -> Figure:
    """Lay out the sheet of :func:`save_summary`."""
    figure = Figure(figsize=(11, 6), layout="constrained")
    grid = figure.add_gridspec(2, 2, width_ratios=(1.25, 1))
    left = figure.add_subplot(grid[:, 0])
    top, bottom = (figure.add_subplot(grid[row, 1]) for row in (0, 1))
    draw_map(left, embedding, labels, seed=facts["seed"])
    assessments = [r for r in facts["history"] if r["event"] == "assessment"]
    epochs = [r for r in facts["history"] if r["event"] == "epoch"]
    for axes, records in ((top, assessments), (bottom, epochs)):
        axes.set_visible(bool(records))  # a method may judge no views, a fit have no epochs
    if assessments:
        measure = facts.get("settings", {}).get("quality", "quality")
        if isinstance(measure, dict):  # a function of the user, by its full name
            measure = str(measure.get("<function>", "quality")).rpartition(".")[2]
        draw_quality(top, list(facts["data"]["views"]), assessments, measure=measure)
    if epochs:
        draw_losses(bottom, epochs)
    return figure


def draw_map(
    axes: Axes, embedding: NDArray[np.float32], labels: NDArray[np.int64], *, seed: int = 0
) -> None:
    """Draw the samples in the plane (t-SNE), coloured by cluster."""
    shown = np.arange(len(labels))
    if len(labels) > MAP_SAMPLES:
        shown = np.sort(np.random.default_rng(seed).choice(shown, MAP_SAMPLES, replace=False))
    points = plane(embedding[shown], seed=seed)
    for cluster in range(int(labels.max()) + 1):
        members = points[labels[shown] == cluster]
        axes.scatter(
            members[:, 0],
            members[:, 1],
            s=float(np.clip(9000 / len(shown), 9, 30)),  # points²
            linewidths=0,
            color=COLOURS[cluster % len(COLOURS)],
            marker=MARKS[cluster // len(COLOURS) % len(MARKS)],
            label=f"{cluster} ({int((labels == cluster).sum())})",
        )
    axes.set_title(f"{len(labels)} samples, {len(np.unique(labels))} clusters")
    axes.set_xticks([])
    axes.set_yticks([])
    many = int(labels.max()) >= 30
    axes.legend(
        title="cluster (size)", markerscale=2, fontsize=6 if many else 8, ncols=8 if many else 5,
        columnspacing=1, handletextpad=0.2, frameon=False,
        loc="upper center", bbox_to_anchor=(0.5, 0),
    )  # fmt: skip


def draw_quality(
    axes: Axes,
    views: Sequence[str],
    assessments: Sequence[dict[str, Any]],
    *,
    measure: str = "quality",
) -> None:
    """Draw the quality of each view over the iterations; the best one is marked each time."""
    rounds = [record["iteration"] for record in assessments]
    for position, view in enumerate(views):
        qualities = [record["quality"][position] for record in assessments]
        axes.plot(
            rounds,
            qualities,
            color=COLOURS[position % len(COLOURS)],
            marker=MARKS[position % len(MARKS)],
            label=shorten(view),
        )
    chosen = [record["quality"][views.index(record["best_view"])] for record in assessments]
    axes.plot(rounds, chosen, linestyle="", marker="o", markersize=13, mfc="none", mec="black")
    axes.margins(y=0.15)  # room for the rings
    axes.set_xticks(rounds)
    axes.set_xlabel("iteration (0: after pre-training)")
    axes.set_ylabel(measure)
    axes.set_title("quality of the views (ringed: the best)")
    axes.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))


def draw_losses(axes: Axes, epochs: Sequence[dict[str, Any]]) -> None:
    """Draw the loss over the epochs, one line per phase."""
    start = 0
    phases = list(dict.fromkeys(record["phase"] for record in epochs))
    for position, phase in enumerate(phases):
        losses = [record["loss"] for record in epochs if record["phase"] == phase]
        axes.plot(
            range(start + 1, start + len(losses) + 1),
            losses,
            color=COLOURS[position % len(COLOURS)],
            label=phase,
        )
        start += len(losses)
    # A method's loss may be negative, where a logarithm shows nothing.
    axes.set_yscale("log" if all(record["loss"] > 0 for record in epochs) else "linear")
    axes.set_xlabel("epoch")
    axes.set_title("loss")
    axes.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))


def shorten(name: str, length: int = 24) -> str:
    """Cut a name in its middle, where names of views differ least."""
    half = (length - 1) // 2
    return name if len(name) <= length else f"{name[:half]}…{name[-half:]}"


def plane(embedding: NDArray[np.float32], *, seed: int = 0) -> NDArray[np.float64]:
    """Map samples to the plane by t-SNE, after PCA to 50 axes where there are more.

    Where there is nothing to unfold, all samples alike or one axis, the plane shows just that.
    """
    n, width = embedding.shape
    if width < 2 or (embedding == embedding[0]).all():
        return np.column_stack([embedding[:, 0], np.zeros(n)]).astype(np.float64)
    if min(n, width) > 50:
        embedding = PCA(50, svd_solver="randomized", random_state=seed).fit_transform(embedding)
    perplexity = min(30.0, max(1.0, (n - 1) / 3))
    tsne = TSNE(2, init="pca", perplexity=perplexity, random_state=seed)
    return np.asarray(tsne.fit_transform(embedding), dtype=np.float64)
