from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dwcl.errors import SettingError
from dwcl.views import (
    Assessment,
    Mechanism,
    Pair,
    as_records,
    cmi_weight,
    every_pair,
    exponential_quality_weight,
    weigh_pairs,
)

PAPER: dict[str, Any] = {
    "quality_weight": exponential_quality_weight,
    "discrepancy_weight": cmi_weight,
}


def make(
    quality: tuple[float, ...], agreement: tuple[tuple[float, ...], ...], best: int | None = None
) -> Assessment:
    n_views = len(quality)
    return Assessment(
        names=tuple(f"v{i}" for i in range(n_views)),
        labels=torch.zeros(n_views, 4, dtype=torch.int64),
        quality=quality,
        agreement=agreement,
        best=quality.index(max(quality)) if best is None else best,
    )


@pytest.fixture
def three() -> Assessment:
    return make((0.2, 0.6, 0.1), ((1.0, 0.5, 0.25), (0.5, 1.0, 0.0), (0.25, 0.0, 1.0)))


@st.composite
def assessments(draw: st.DrawFn) -> Assessment:
    """Views with silhouettes in (0, 1), as Theorem 1 assumes, and agreements in [0, 1]."""
    n_views = draw(st.integers(1, 6))
    unit = st.floats(0.001, 0.999)
    table = [[1.0] * n_views for _ in range(n_views)]
    for v, w in itertools.combinations(range(n_views), 2):
        table[v][w] = table[w][v] = draw(st.floats(0, 1))
    quality = tuple(draw(unit) for _ in range(n_views))
    return make(quality, tuple(map(tuple, table)))


# -- by hand ---------------------------------------------------------------------------------------


def test_agreement_weighs_from_nothing_to_e_minus_1() -> None:
    assert cmi_weight(0.0) == 0.0
    assert cmi_weight(1.0) == pytest.approx(math.e - 1, rel=1e-15)
    assert cmi_weight(0.5) == pytest.approx(0.6487212707, rel=1e-9)
    assert cmi_weight(1e-12) == pytest.approx(1e-12, rel=1e-9)


def test_best_other_by_hand(three: Assessment) -> None:
    pairs = weigh_pairs(three, "best-other", **PAPER)
    assert [(p.v, p.w, p.terms) for p in pairs] == [(0, 1, 1), (1, 1, 1), (2, 1, 1)]
    assert [p.weight for p in pairs] == pytest.approx(
        [
            math.exp(0.2 + 0.6) * (math.exp(0.5) - 1),
            math.exp(0.6 + 0.6) * (math.e - 1),
            0.0,  # nothing in common with the best view, so no pull towards it
        ],
        rel=1e-12,
    )
    assert pairs[0].weight == pytest.approx(1.443756, abs=1e-6)


def test_pairwise_by_hand(three: Assessment) -> None:
    pairs = weigh_pairs(three, "pairwise", **PAPER)
    assert {(p.v, p.w): p.weight for p in pairs} == pytest.approx(
        {
            (0, 0): math.exp(0.4) * (math.e - 1),
            (0, 1): 2 * math.exp(0.8) * (math.exp(0.5) - 1),
            (0, 2): 2 * math.exp(0.3) * (math.exp(0.25) - 1),
            (1, 1): math.exp(1.2) * (math.e - 1),
            (1, 2): 0.0,
            (2, 2): math.exp(0.2) * (math.e - 1),
        },
        rel=1e-12,
    )


@pytest.mark.parametrize(
    ("quality_weight", "discrepancy_weight", "expected"),
    [
        (None, None, 1.0),
        (exponential_quality_weight, None, math.exp(0.8)),
        (None, cmi_weight, math.exp(0.5) - 1),
        (lambda v, w: v - w, lambda agreement: 10 * agreement, (0.2 - 0.6) * 5),
    ],
)
def test_each_factor_can_be_replaced_or_left_out(
    quality_weight: Any, discrepancy_weight: Any, expected: float, three: Assessment
) -> None:
    factors = {"quality_weight": quality_weight, "discrepancy_weight": discrepancy_weight}
    (first, *_) = weigh_pairs(three, "best-other", **factors)
    assert first.weight == pytest.approx(expected, rel=1e-12)


def test_the_best_view_is_that_of_the_assessment() -> None:
    chosen = make((0.9, 0.1), ((1.0, 0.5), (0.5, 1.0)), best=1)
    assert [(p.v, p.w) for p in weigh_pairs(chosen, "best-other", **PAPER)] == [(0, 1), (1, 1)]


# -- the paper's theorems --------------------------------------------------------------------------


@given(assessment=assessments(), mechanism=st.sampled_from(["best-other", "pairwise"]))
def test_weights_lie_within_the_bounds(assessment: Assessment, mechanism: Mechanism) -> None:
    by_quality = weigh_pairs(
        assessment, mechanism, quality_weight=exponential_quality_weight, discrepancy_weight=None
    )
    assert all(1 < p.weight / p.terms < math.e**2 for p in by_quality)
    by_agreement = weigh_pairs(
        assessment, mechanism, quality_weight=None, discrepancy_weight=cmi_weight
    )
    assert all(0 <= p.weight / p.terms <= math.e - 1 for p in by_agreement)
    both = weigh_pairs(assessment, mechanism, **PAPER)
    for p, q, c in zip(both, by_quality, by_agreement, strict=True):
        assert p.weight == pytest.approx(q.weight * c.weight / p.terms, rel=1e-12)


@given(assessment=assessments())
def test_best_other_has_v_terms_and_pairwise_v_squared(assessment: Assessment) -> None:
    n_views = len(assessment.names)

    def terms(mechanism: Mechanism, *, self_pairs: bool) -> int:
        pairs = weigh_pairs(assessment, mechanism, **PAPER, self_pairs=self_pairs)
        return sum(p.terms for p in pairs)

    assert terms("best-other", self_pairs=True) == n_views
    assert terms("pairwise", self_pairs=True) == n_views**2
    assert terms("best-other", self_pairs=False) == n_views - 1
    assert terms("pairwise", self_pairs=False) == n_views * (n_views - 1)


@given(assessment=assessments())
def test_a_views_pairwise_quality_weight_is_within_theorem_2(assessment: Assessment) -> None:
    quality = assessment.quality
    for v in quality:
        total = sum(exponential_quality_weight(v, w) for w in quality)
        assert len(quality) < total < len(quality) * math.e**2


# -- the double sum --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "quality_weight",
    [exponential_quality_weight, lambda v, w: v + 3 * w * w],
    ids=["symmetric", "not symmetric"],
)
@pytest.mark.parametrize("self_pairs", [True, False])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_pairwise_is_the_sum_over_all_ordered_pairs(
    quality_weight: Any, self_pairs: bool, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    n_views = 4
    table = torch.rand(n_views, n_views, generator=generator, dtype=torch.float64)
    table = (table + table.T) / 2
    loss = torch.rand(n_views, n_views, generator=generator, dtype=torch.float64)
    loss = loss + loss.T  # of a pair, in either order
    quality = tuple(torch.rand(n_views, generator=generator).tolist())
    assessment = make(quality, tuple(map(tuple, table.tolist())))
    expected = 0.0
    for v in range(n_views):
        for w in range(n_views):
            if v != w or self_pairs:
                weight = quality_weight(quality[v], quality[w]) * (math.exp(table[v, w]) - 1)
                expected += weight * float(loss[v, w])
    pairs = weigh_pairs(
        assessment,
        "pairwise",
        quality_weight=quality_weight,
        discrepancy_weight=cmi_weight,
        self_pairs=self_pairs,
    )
    assert len({frozenset((p.v, p.w)) for p in pairs}) == len(pairs)
    assert sum(p.weight * float(loss[p.v, p.w]) for p in pairs) == pytest.approx(
        expected, rel=1e-12
    )


@pytest.mark.parametrize("mechanism", ["best-other", "pairwise"])
def test_pairs_of_a_view_with_itself_can_be_left_out(
    mechanism: Mechanism, three: Assessment
) -> None:
    every = weigh_pairs(three, mechanism, **PAPER)
    assert weigh_pairs(three, mechanism, **PAPER, self_pairs=False) == [
        p for p in every if p.v != p.w
    ]


@pytest.mark.parametrize("mechanism", ["best-other", "pairwise"])
def test_one_view_has_itself_alone(mechanism: Mechanism) -> None:
    alone = make((0.5,), ((1.0,),))
    assert weigh_pairs(alone, mechanism, **PAPER, self_pairs=False) == []
    (pair,) = weigh_pairs(alone, mechanism, **PAPER)
    assert pair == Pair(0, 0, 1, math.exp(1.0) * math.expm1(1.0))


def test_every_pair_of_views_stands_once_for_both_its_terms() -> None:
    table = [[1.0, 0.5, 4.0], [0.25, 2.0, 8.0], [16.0, 32.0, 3.0]]
    assert every_pair(3, lambda v, w: table[v][w]) == [
        Pair(0, 0, 1, 1.0),
        Pair(0, 1, 2, 0.75),
        Pair(0, 2, 2, 20.0),
        Pair(1, 1, 1, 2.0),
        Pair(1, 2, 2, 40.0),
        Pair(2, 2, 1, 3.0),
    ]
    assert every_pair(1, lambda v, w: table[v][w]) == [Pair(0, 0, 1, 1.0)]


# -- records and bad functions ---------------------------------------------------------------------


def test_records_name_the_views(three: Assessment) -> None:
    assert as_records([Pair(0, 2, 2, 1.5), Pair(1, 1, 1, 0.5)], three.names) == [
        {"views": ["v0", "v2"], "terms": 2, "weight": 1.5},
        {"views": ["v1", "v1"], "terms": 1, "weight": 0.5},
    ]


@pytest.mark.parametrize("value", [math.nan, math.inf, None, "1.0.0"])
def test_a_weight_that_is_no_number_is_refused(value: Any, three: Assessment) -> None:
    with pytest.raises(SettingError, match=r"The quality weight of the views 'v0' and 'v1' is"):
        weigh_pairs(three, "best-other", quality_weight=lambda v, w: value, discrepancy_weight=None)
    with pytest.raises(SettingError, match=r"The discrepancy weight of the views 'v0' and 'v0'"):
        weigh_pairs(three, "pairwise", quality_weight=None, discrepancy_weight=lambda a: value)
