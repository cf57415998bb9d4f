"""Ranks and tests against hand-computed values and slow plain references."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from dwcl.errors import DataError
from dwcl.experiments.comparison import (
    compare,
    critical_difference,
    friedman,
    holm,
    mean_ranks,
    resampled,
    signed_rank,
)
from dwcl.experiments.summary import Cell, Summary

# Four data sets × three methods: the first is best everywhere, the others are equal once.
VALUES = np.array([[0.9, 0.5, 0.4], [0.8, 0.6, 0.6], [0.7, 0.2, 0.3], [0.6, 0.5, 0.1]])


def summary(values: np.ndarray, metric: str = "acc", spread: float = 0.0) -> Summary:
    data = [f"d{i}" for i in range(len(values))]
    labels = [f"m{j}" for j in range(values.shape[1])]
    cells = {
        (data[i], labels[j]): Cell({s: float(values[i, j]) + spread * (s - 1) for s in range(3)})
        for i, j in np.ndindex(*values.shape)
    }
    return Summary(metric, tuple(data), tuple(labels), cells)


def test_ranks_by_hand() -> None:
    # 1 1 1 1 → 1; 2 2.5 3 2 → 2.375; 3 2.5 2 3 → 2.625
    assert mean_ranks(VALUES).tolist() == [1.0, 2.375, 2.625]


def test_friedman_by_its_formula() -> None:
    """12 / (N k (k + 1)) Σ R² − 3 N (k + 1), over the correction for the one tie of two."""
    n, k = VALUES.shape
    sums = n * mean_ranks(VALUES)
    plain = 12 / (n * k * (k + 1)) * float((sums**2).sum()) - 3 * n * (k + 1)
    ties = (2**3 - 2) / (n * (k**3 - k))
    statistic, p = friedman(VALUES)
    assert statistic == pytest.approx(plain / (1 - ties))
    assert p == pytest.approx(math.exp(-statistic / 2))  # χ² with two degrees of freedom


@pytest.mark.parametrize("values", [VALUES[:, :2], VALUES[:1], np.ones((4, 3))])
def test_friedman_says_nothing_where_there_is_nothing_to_say(values: np.ndarray) -> None:
    assert all(math.isnan(value) for value in friedman(values))


@pytest.mark.parametrize(("k", "q"), [(2, 1.960), (3, 2.343), (5, 2.728), (10, 3.164)])
def test_the_critical_difference_is_that_of_the_published_table(k: int, q: float) -> None:
    for n in (5, 14):
        expected = q * math.sqrt(k * (k + 1) / (6 * n))
        assert critical_difference(k, n) == pytest.approx(expected, rel=1e-3)
    assert math.isnan(critical_difference(k, 1))


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    found = holm([math.nan, 0.02, 0.01])
    assert math.isnan(found[0])
    assert found[1:] == pytest.approx([0.02, 0.02])


def test_signed_ranks_by_counting() -> None:
    """Five differences of one sign: 2 of the 2⁵ equally likely signs are as extreme."""
    assert signed_rank(np.array([1.0, 2.0, 3.0, 4.0, 5.0])) == pytest.approx(2 / 2**5)
    differences = np.array([0.3, -0.1, 0.7, 0.2, 0.9, -0.4])
    ranks = np.abs(differences).argsort().argsort() + 1
    plus = ranks[differences > 0].sum()
    total = ranks.sum()
    extreme = 0
    for signs in itertools.product((0, 1), repeat=len(ranks)):
        sum_plus = (ranks * signs).sum()
        extreme += min(sum_plus, total - sum_plus) <= min(plus, total - plus)
    assert signed_rank(differences) == pytest.approx(extreme / 2 ** len(ranks))
    assert signed_rank(np.zeros(4)) == 1.0
    assert math.isnan(signed_rank(np.array([1.0])))


def test_an_interval_covers_the_difference_and_shrinks_with_the_data() -> None:
    rng = np.random.default_rng(0)
    few, many = ([rng.normal(size=4) for _ in range(n)] for n in (5, 80))
    widths = []
    for values in (few, many):
        shifted = [x + 2.0 for x in values]
        low, high = resampled(shifted, values, 0)
        assert low < 2.0 < high
        widths.append(high - low)
    assert widths[1] < widths[0] / 2
    same = [np.ones(3)] * 4
    assert resampled(same, same, 0) == (0.0, 0.0)


def test_coverage_of_the_interval() -> None:
    """Of independent differences around zero, about one interval in twenty misses it."""
    missed = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        one = [rng.normal(size=1) for _ in range(25)]
        low, high = resampled(one, [np.zeros(1)] * 25, seed)
        missed += not low <= 0 <= high
    assert missed <= 10


def test_a_comparison_puts_the_best_first() -> None:
    found = compare(summary(VALUES))
    assert found.labels == ("m0", "m1", "m2")
    assert found.ranks == {"m0": 1.0, "m1": 2.375, "m2": 2.625}
    first = found.pairs[0]
    assert (first.first, first.second) == ("m0", "m1")
    assert first.mean == pytest.approx((0.4 + 0.2 + 0.5 + 0.1) / 4)
    assert first.corrected >= first.p


def test_of_time_less_is_better() -> None:
    assert compare(summary(VALUES, "seconds")).labels == ("m2", "m1", "m0")


def test_data_without_all_methods_have_no_part() -> None:
    partial = summary(VALUES)
    cells = dict(partial.cells)
    cells["d0", "m1"] = Cell({}, failed=3)
    found = compare(Summary("acc", partial.data, partial.labels, cells))
    assert found.data == ("d1", "d2", "d3")


@pytest.mark.parametrize("values", [VALUES[:, :1], VALUES[:0]])
def test_nothing_to_compare_is_said(values: np.ndarray) -> None:
    with pytest.raises(DataError, match="at least two methods and one data set"):
        compare(summary(values))


@pytest.mark.parametrize("seed", range(3))
def test_neither_order_of_methods_nor_of_data_matters(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.random((6, 4))
    base = compare(summary(values))
    rows, columns = rng.permutation(6), rng.permutation(4)
    shuffled = summary(values[rows][:, columns])
    names = {f"m{j}": f"m{columns[j]}" for j in range(4)}
    found = compare(shuffled)
    assert {names[label]: rank for label, rank in found.ranks.items()} == pytest.approx(base.ranks)
    assert found.friedman == pytest.approx(base.friedman)
