"""Scores of a fitted model: the whole, each view, and the yardsticks."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from dwcl.clustering.kmeans import kmeans
from dwcl.evaluate.scores import score
from dwcl.streams import RandomStreams


class FittedModel(Protocol):
    """What is needed of a model."""

    n_clusters: int
    n_init: int
    seed_: int
    view_names_: tuple[str, ...]
    feature_widths_: tuple[int, ...]
    labels_: NDArray[np.int64]

    def transform(self, X: Any) -> NDArray[np.float32]:
        """Return the joined embedding."""

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Return clusters."""


def score_model(model: FittedModel, labels: ArrayLike) -> dict[str, Any]:
    """Score what a fit found: the clusters, the views before and after, the yardsticks."""
    truth = np.asarray(labels)
    scores: dict[str, Any] = {"clusters": score(truth, model.labels_)}
    assessments = getattr(model, "assessments_", [])
    by_iteration = [
        {
            name: score(truth, found.cpu().numpy())
            for name, found in zip(assessment.names, assessment.labels, strict=True)
        }
        for assessment in assessments
    ]
    if by_iteration:
        scores["views"] = by_iteration[-1]
        scores["views_by_iteration"] = by_iteration
    baselines = getattr(model, "baseline_labels_", {})
    if baselines:
        scores["baselines"] = {name: score(truth, found) for name, found in baselines.items()}
    return scores


def score_views(model: FittedModel, data: Any, labels: ArrayLike) -> dict[str, Any]:
    """Score the clusters that a model gives to data, and k-means on each view's features.

    A method whose features are those of all views at once has no scores by view.
    """
    truth = np.asarray(labels)
    scores: dict[str, Any] = {"clusters": score(truth, model.predict(data))}
    if len(model.feature_widths_) != len(model.view_names_):
        return scores
    ends = np.cumsum(model.feature_widths_)[:-1]
    parts = np.split(model.transform(data), ends, axis=1)
    streams = RandomStreams(model.seed_)
    views = {}
    for name, part in zip(model.view_names_, parts, strict=True):
        found = kmeans(
            torch.from_numpy(np.ascontiguousarray(part)),
            min(model.n_clusters, len(part)),
            n_init=model.n_init,
            generator=streams.torch("kmeans", "evaluate", name),
        )
        views[name] = score(truth, found.labels.numpy())
    return {**scores, "views": views}
