"""Speed of k-means and of the silhouette, as ratios to scikit-learn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.metrics import silhouette_score
from threadpoolctl import threadpool_limits
from torch import Tensor

from dwcl.bench.report import Figure, alternate
from dwcl.clustering.kmeans import kmeans
from dwcl.clustering.silhouette import silhouette
from dwcl.training.session import in_session

WIDTH, CLUSTERS = 128, 10


def blobs(n: int, *, spread: float = 1.0, seed: int = 0) -> tuple[NDArray[np.float32], Tensor]:
    """Draw overlapping groups of samples, n × 128, and the groups (n)."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(CLUSTERS, size=n)
    centres = rng.normal(size=(CLUSTERS, WIDTH))
    x = centres[labels] + spread * rng.normal(size=(n, WIDTH))
    return x.astype(np.float32), torch.from_numpy(labels)


def measure_kmeans(
    sizes: Sequence[int], *, rounds: int = 3, threads: int | None = None
) -> tuple[list[Figure], float]:
    """Measure k-means with ten restarts.

    Returns
    -------
    list of Figure, float
        One for each size, and the greatest inertia over scikit-learn's.
    """
    figures, worst = [], 0.0
    for n in sizes:
        x, _ = blobs(n, spread=2.0)
        inertias: dict[str, float] = {}

        def ours(x: NDArray[np.float32] = x, inertias: dict[str, float] = inertias) -> None:
            generator = torch.Generator().manual_seed(0)
            found = kmeans(torch.from_numpy(x), CLUSTERS, n_init=10, generator=generator)
            inertias["ours"] = found.inertia

        def theirs(x: NDArray[np.float32] = x, inertias: dict[str, float] = inertias) -> None:
            with threadpool_limits(threads):
                found = KMeans(CLUSTERS, n_init=10, random_state=0).fit(x)
            inertias["theirs"] = float(found.inertia_)

        seconds = alternate({"ours": _in_session(ours, threads), "theirs": theirs}, rounds)
        target = 3.0 if n >= 60_000 else None
        figures.append(_figure(f"k-means, n = {n:,}", seconds, target))
        worst = max(worst, inertias["ours"] / inertias["theirs"])
    return figures, worst


def measure_silhouette(
    sizes: Sequence[int], *, rounds: int = 3, threads: int | None = None
) -> list[Figure]:
    """Measure the exact silhouette."""
    figures = []
    for n in sizes:
        x, labels = blobs(n)

        def ours(x: NDArray[np.float32] = x, labels: Tensor = labels) -> None:
            silhouette(torch.from_numpy(x), labels)

        def theirs(x: NDArray[np.float32] = x, labels: Tensor = labels) -> None:
            with threadpool_limits(threads):
                silhouette_score(x, labels.numpy())

        seconds = alternate({"ours": _in_session(ours, threads), "theirs": theirs}, rounds)
        figures.append(_figure(f"silhouette, n = {n:,}", seconds, 15.0 if n >= 20_000 else None))
    return figures


def _in_session(work: Callable[[], None], threads: int | None) -> Callable[[], object]:
    return partial(in_session, lambda _: work(), threads)


def _figure(what: str, seconds: dict[str, float], target: float | None) -> Figure:
    ours, theirs = seconds["ours"], seconds["theirs"]
    return Figure(what, ours, theirs, theirs / ours, "scikit-learn", target)
