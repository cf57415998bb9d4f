"""What an experiment may take down of a fitted model beside its scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from dwcl.data.multiview import MultiView

MAP_SAMPLES = 2000
"""Samples of a map; of more, a seeded choice."""
PROBE_REPEATS = 10


def by_view(model: Any, data: MultiView) -> dict[str, Any]:
    """Score k-means on the features of each view; nothing where features are of all views."""
    from dwcl.evaluate.summary import score_views

    scores: dict[str, Any] = score_views(model, data, np.asarray(data.labels)).get("views", {})
    return scores


def probe(model: Any, data: MultiView) -> dict[str, float]:
    """Train a linear classifier on the features, brought to one size for all methods.

    How strongly the classifier is held back depends on the size of its input: features that are
    small by a factor of a hundred would tell it nothing. One factor for all keeps their geometry.
    """
    from dwcl.evaluate.probe import linear_probe

    features = model.transform(data)
    features = features - features.mean(axis=0)
    size = float(np.sqrt(np.mean(np.square(features)))) or 1.0
    classes = np.asarray(data.labels)
    found = linear_probe(features / size, classes, repeats=PROBE_REPEATS, random_state=model.seed_)
    return found.as_dict()


def in_the_plane(model: Any, data: MultiView) -> dict[str, Any]:
    """Place samples in the plane by t-SNE of their features, with their classes."""
    from dwcl.report.figures import plane

    chosen = np.arange(data.n_samples)
    if len(chosen) > MAP_SAMPLES:
        rng = np.random.default_rng(model.seed_)
        chosen = np.sort(rng.choice(chosen, MAP_SAMPLES, replace=False))
    points = plane(model.transform(data)[chosen], seed=model.seed_)
    classes = np.unique(np.asarray(data.labels), return_inverse=True)[1]
    return {
        "points": np.round(points, 3).tolist(),
        "classes": classes[chosen].tolist(),
    }


EXTRAS: Mapping[str, Callable[[Any, MultiView], Any]] = MappingProxyType(
    {"views": by_view, "probe": probe, "map": in_the_plane}
)
