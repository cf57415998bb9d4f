"""The state of the views between two stretches of training: clusters, quality, the best view."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor

from dwcl.clustering.minibatch import cluster
from dwcl.clustering.tables import Table
from dwcl.errors import SettingError
from dwcl.streams import RandomStreams
from dwcl.views.discrepancy import between_views, cmi
from dwcl.views.quality import QualityMeasure, finite, judge


@dataclass(frozen=True, eq=False)
class Assessment:
    """What is known of V views without labels.

    Attributes
    ----------
    names : tuple of str
        The views in their order.
    labels : Tensor, V × n
        Clusters of each view by k-means.
    quality : tuple of float
        Quality of each view; the silhouette unless another measure was chosen.
    agreement : tuple of tuple of float
        CMI of each two views' clusters, V × V; 1 on the diagonal.
    best : int
        Position of the best view.
    """

    names: tuple[str, ...]
    labels: Tensor
    quality: tuple[float, ...]
    agreement: tuple[tuple[float, ...], ...]
    best: int

    @property
    def best_name(self) -> str:
        """Name of the best view."""
        return self.names[self.best]

    def as_record(self) -> dict[str, Any]:
        """Return the figures (not the labels of the samples) as plain values for the history."""
        return {
            "quality": list(self.quality),
            "cmi": [list(row) for row in self.agreement],
            "best_view": self.best_name,
        }

    def state(self) -> dict[str, Any]:
        """Return everything as tensors and plain values, for a checkpoint."""
        return {
            "names": list(self.names),
            "labels": self.labels,
            "quality": list(self.quality),
            "agreement": [list(row) for row in self.agreement],
            "best": self.best,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Assessment:
        """Make the assessment of a state; what else lies in it is left alone."""
        return cls(
            names=tuple(state["names"]),
            labels=state["labels"],
            quality=tuple(state["quality"]),
            agreement=tuple(tuple(row) for row in state["agreement"]),
            best=state["best"],
        )


ViewChoice: TypeAlias = Callable[[tuple[float, ...], tuple[tuple[float, ...], ...]], int]
"""Chooses the best view: from the qualities (V) and the agreements (V × V) to a position."""


def by_quality(
    quality: tuple[float, ...],
    agreement: tuple[tuple[float, ...], ...],  # noqa: ARG001 - the common form of a ViewChoice
) -> int:
    """Choose the view with the highest quality, the first of equal ones (the paper's rule)."""
    return max(range(len(quality)), key=quality.__getitem__)


def by_agreement(quality: tuple[float, ...], agreement: tuple[tuple[float, ...], ...]) -> int:
    """Choose the view whose clusters agree most with those of the others.

    A view of few features can be compact, so of high silhouette, and still tell little; what it
    finds is then not confirmed by other views. Of views that agree equally, as two views always
    do, the quality decides.
    """
    return max(range(len(agreement)), key=lambda v: (math.fsum(agreement[v]), quality[v]))


def assess(
    features: Sequence[Table],
    names: Sequence[str],
    n_clusters: int,
    *,
    quality: QualityMeasure,
    choose: ViewChoice,
    n_init: int,
    streams: RandomStreams,
    stage: str,
    exact: int | None = None,
) -> Assessment:
    """Cluster each view, judge it, compare it with the others, and choose the best.

    Parameters
    ----------
    features : sequence of Tensor or Table, n × d_v
        H or Ĥ of each view.
    names : sequence of str
        The views' names; randomness goes by them, so that the order of views has no influence.
    n_clusters, n_init : int
        For k-means.
    quality : QualityMeasure
        Judges one view.
    choose : ViewChoice
        Chooses among all.
    streams, stage : RandomStreams, str
        Randomness, and the name of the moment for it.
    exact : int, optional
        Bytes of a view's features up to which k-means works on all of them at once; without a
        bound unless given.
    """
    labels, qualities = [], []
    for h, name in zip(features, names, strict=True):
        generator = streams.torch("kmeans", stage, name)
        found = cluster(h, n_clusters, n_init=n_init, generator=generator, budget=exact).labels
        judged = judge(quality, h, found, streams.torch("quality", stage, name))
        labels.append(found)
        qualities.append(finite(judged, f"quality of view '{name}'"))
    agreement = between_views(labels, cmi, 1.0)
    best = _position(choose(tuple(qualities), agreement), len(names))
    return Assessment(tuple(names), torch.stack(labels), tuple(qualities), agreement, best)


def _position(chosen: Any, n_views: int) -> int:
    """Check what a view choice, which may be a function of the user, returned."""
    try:
        position = -1 if isinstance(chosen, bool) else operator.index(chosen)
    except TypeError:
        position = -1
    if not 0 <= position < n_views:
        raise SettingError(
            f"The function that chooses the best view returned {chosen!r}; a position, a whole "
            f"number from 0 to {n_views - 1}, is expected."
        )
    return position
