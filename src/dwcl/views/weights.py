"""Which pairs of views are contrasted, and how much each pair counts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from dwcl.views.assessment import Assessment
from dwcl.views.quality import finite

Mechanism: TypeAlias = Literal["best-other", "pairwise"]
QualityWeight: TypeAlias = Callable[[float, float], float]
"""From the qualities of two views to the factor of their pair."""
DiscrepancyWeight: TypeAlias = Callable[[float], float]
"""From the agreement (CMI) of two views to the factor of their pair."""


@dataclass(frozen=True)
class Pair:
    """Two views that are contrasted.

    Attributes
    ----------
    v, w : int
        Positions of the views; equal for a view paired with itself.
    terms : int
        How many terms of the objective it stands for: the loss is symmetric, so the two ordered
        pairs of the pairwise mechanism are computed once.
    weight : float
        Factor of the pair's mean loss, all its terms together.
    """

    v: int
    w: int
    terms: int
    weight: float


def cmi_weight(agreement: float) -> float:
    """W_CMI = e^CMI − 1: 0 for views that tell nothing of each other, e − 1 for equal ones."""
    return math.expm1(agreement)


def jsd_weight(divergence: float) -> float:
    """W_JSD = e^(1 − JSD) − 1: from e − 1 for equal features down to 0.359 for the farthest."""
    return math.expm1(1 - divergence)


def mmd_weight(discrepancy: float) -> float:
    """W_MMD = e^(−MMD): 1 for features that lie alike."""
    return math.exp(-discrepancy)


def weigh_pairs(
    assessment: Assessment,
    mechanism: Mechanism,
    *,
    quality_weight: QualityWeight | None,
    discrepancy_weight: DiscrepancyWeight | None,
    self_pairs: bool = True,
) -> list[Pair]:
    """List the pairs of a mechanism with their weights.

    ``best-other`` pairs each of the V views with the best one, V terms in all; ``pairwise`` takes
    all V² ordered pairs. The pairs of a view with itself, which both sums of the paper include,
    can be left out. A factor that is None counts as 1.
    """
    n_views = len(assessment.names)

    def weight(v: int, w: int) -> float:
        pair = f"weight of the views '{assessment.names[v]}' and '{assessment.names[w]}'"
        factor = 1.0
        if quality_weight is not None:
            quality = assessment.quality
            factor *= finite(quality_weight(quality[v], quality[w]), f"quality {pair}")
        if discrepancy_weight is not None:
            factor *= finite(discrepancy_weight(assessment.agreement[v][w]), f"discrepancy {pair}")
        return factor

    if mechanism == "best-other":
        best = assessment.best
        pairs = [Pair(v, best, 1, weight(v, best)) for v in range(n_views)]
    else:
        pairs = every_pair(n_views, weight)
    return [pair for pair in pairs if self_pairs or pair.v != pair.w]


def every_pair(n_views: int, weight: Callable[[int, int], float]) -> list[Pair]:
    """List all V² ordered pairs, views with themselves included, by a function of two positions.

    A loss that is symmetric in its views need not be computed twice: (v, w) and (w, v) are one pair
    of two terms, so there are V·(V + 1)/2 in all.
    """
    return [
        Pair(v, w, 1, weight(v, w)) if v == w else Pair(v, w, 2, weight(v, w) + weight(w, v))
        for v in range(n_views)
        for w in range(v, n_views)
    ]


def as_records(pairs: Sequence[Pair], names: Sequence[str]) -> list[dict[str, Any]]:
    """Return the pairs by the names of their views, as plain values for the history."""
    return [
        {"views": [names[p.v], names[p.w]], "terms": p.terms, "weight": p.weight} for p in pairs
    ]
