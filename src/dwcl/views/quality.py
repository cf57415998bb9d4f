"""How good a view is, judged from its features and their clusters alone."""

from __future__ import annotations

import math
from typing import Any, Protocol

import torch
from torch import Tensor

from dwcl.clustering.silhouette import silhouette
from dwcl.clustering.tables import Table
from dwcl.errors import SettingError


class QualityMeasure(Protocol):
    """Judges one view: greater is better.

    Called with the features (n × d), the k-means labels found in them (n) and a generator for
    measures that sample. Any function of this form can take the silhouette's place.
    """

    def __call__(self, features: Tensor, labels: Tensor, generator: torch.Generator, /) -> float:
        """Return the quality."""
        ...


class SilhouetteQuality:
    """Mean silhouette coefficient: exact up to `budget` samples, above on a seeded sample."""

    def __init__(self, budget: int) -> None:
        self.budget = budget

    def __call__(self, features: Table, labels: Tensor, generator: torch.Generator, /) -> float:
        """Return the mean silhouette of a view's clusters."""
        return silhouette(features, labels, budget=self.budget, generator=generator).mean

    def samples_used(self, n_samples: int) -> int:
        """Tell how many samples the measure looks at."""
        return min(n_samples, self.budget)


def judge(
    quality: QualityMeasure, features: Table, labels: Tensor, generator: torch.Generator
) -> Any:
    """Let a measure judge a view; a function of the user gets a tensor of all its features."""
    if isinstance(quality, SilhouetteQuality):
        return quality(features, labels, generator)
    return quality(features[:], labels, generator)


def finite(value: Any, what: str) -> float:
    """Check the number that a function of the user returned, before NaN gets into a loss."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise SettingError(
            f"The {what} is {value!r}; the function that gives it must return a finite number."
        )
    return number


def exponential_quality_weight(quality_v: float, quality_w: float) -> float:
    """W_SI(v, w) = e^(SI_v) · e^(SI_w): between 1 and e² for silhouettes between 0 and 1."""
    return math.exp(quality_v + quality_w)
