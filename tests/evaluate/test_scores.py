"""Scores against hand-counted cases, plain loops and their properties."""

from __future__ import annotations

from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dwcl.errors import DataError
from dwcl.evaluate.scores import accuracy, ari, nmi, pairwise_f, purity, score

labellings = st.integers(2, 25).flatmap(
    lambda n: st.tuples(*[st.lists(st.integers(0, 3), min_size=n, max_size=n)] * 2)
)


def test_a_case_counted_by_hand() -> None:
    truth, found = [0, 0, 1, 1, 2], ["a", "a", "b", "c", "c"]
    scores = score(truth, found)
    # 0 = a, 1 = b, 2 = c: the second sample of class 1 is wrong
    assert scores["acc"] == pytest.approx(4 / 5)
    assert scores["purity"] == pytest.approx(4 / 5)
    # one pair is together in both; two pairs are together in each
    assert scores["f"] == pytest.approx(1 / 2)
    # expected agreement 2 · 2 / 10; (1 − 0.4) / (2 − 0.4)
    assert scores["ari"] == pytest.approx(0.375)
    assert list(scores) == ["acc", "nmi", "ari", "purity", "f"]


def test_nmi_of_a_known_case() -> None:
    assert nmi([0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 1, 1]) == pytest.approx(0.478704, abs=1e-6)
    assert nmi([0, 0, 1, 1], [0, 1, 0, 1]) == pytest.approx(0.0, abs=1e-12)


def test_more_clusters_than_classes_and_fewer() -> None:
    assert accuracy([0, 0, 0, 0], [0, 1, 2, 3]) == 0.25
    assert accuracy([0, 1, 2, 3], [0, 0, 0, 0]) == 0.25
    assert purity([0, 0, 0, 0], [0, 1, 2, 3]) == 1.0
    assert purity([0, 1, 2, 3], [0, 0, 0, 0]) == 0.25


def test_nothing_to_get_wrong() -> None:
    assert pairwise_f([0, 1, 2], [5, 6, 7]) == 1.0
    assert pairwise_f([0, 1, 2], [5, 5, 5]) == 0.0


@given(labellings)
def test_accuracy_is_the_best_over_all_namings(case: tuple[list[int], list[int]]) -> None:
    truth, found = map(np.asarray, case)
    best = max(
        sum(int(naming[f] == t) for t, f in zip(truth, found, strict=True))
        for naming in permutations(range(4))
    )
    assert accuracy(truth, found) == pytest.approx(best / len(truth))


@given(labellings)
def test_pairwise_f_is_that_of_a_loop_over_pairs(case: tuple[list[int], list[int]]) -> None:
    truth, found = case
    both = alone = 0
    for i, j in combinations(range(len(truth)), 2):
        same = (truth[i] == truth[j], found[i] == found[j])
        both += all(same)
        alone += sum(same)
    expected = 1.0 if alone == 0 else 2 * both / alone
    assert pairwise_f(truth, found) == pytest.approx(expected)


@given(labellings, st.randoms(use_true_random=False))
def test_names_and_order_never_matter(case: tuple[list[int], list[int]], random: object) -> None:
    truth, found = map(np.asarray, case)
    order = np.random.default_rng(len(truth)).permutation(len(truth))
    renamed: NDArray[np.str_] = np.array(["d", "b", "a", "c"])[found]
    expected = score(truth, found)
    for changed in (score(truth[order], found[order]), score(truth, renamed)):
        assert changed == pytest.approx(expected)


@given(labellings)
def test_a_perfect_match_scores_one_everywhere(case: tuple[list[int], list[int]]) -> None:
    truth = case[0]
    assert score(truth, [9 - t for t in truth]) == pytest.approx(
        dict.fromkeys(score(truth, truth), 1.0)
    )


def test_ari_of_independent_labels_is_near_zero() -> None:
    rng = np.random.default_rng(0)
    assert abs(ari(rng.integers(0, 5, 4000), rng.integers(0, 5, 4000))) < 0.01


@pytest.mark.parametrize(("one", "other"), [([0, 1], [0, 1, 1]), ([[0, 1]], [[0, 1]]), ([], [])])
def test_vectors_of_other_shapes_are_refused(one: list[int], other: list[int]) -> None:
    with pytest.raises(DataError, match="one value per sample"):
        score(one, other)


@pytest.mark.parametrize("missing", [np.nan, None])
def test_missing_labels_are_refused(missing: float | None) -> None:
    with pytest.raises(DataError, match="Some labels are missing"):
        score([0, 1, missing], [0, 1, 1])
