"""Matching of the names of clusters."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dwcl.clustering import matching
from dwcl.clustering.matching import align_labels, as_codes, contingency, match_labels
from dwcl.errors import DataError

labellings = st.integers(1, 20).flatmap(
    lambda n: st.tuples(*[st.lists(st.integers(0, 3), min_size=n, max_size=n)] * 2)
)


def test_contingency_counts() -> None:
    table = contingency(np.array(["x", "y", "x"]), np.array([1.5, 1.5, -2.0]))
    assert table.tolist() == [[1, 1], [0, 1]]
    assert contingency(torch.tensor([1, 1]), [True, True]).tolist() == [[2]]


def test_codes_are_positions_among_the_sorted_names() -> None:
    assert as_codes(["b", "a", "c", "b"]).tolist() == [1, 0, 2, 1]


def test_names_of_the_reference_are_taken_over() -> None:
    assert match_labels([5, 5, 9, 9], [1, 1, 0, 0]).tolist() == [5, 5, 9, 9]
    assert match_labels([0, 0, 0, 1, 1], [1, 1, 0, 0, 0]).tolist() == [0, 0, 1, 1, 1]


def test_clusters_left_over_get_free_names() -> None:
    assert match_labels([3, 3, 3, 7], [0, 0, 1, 2]).tolist() == [3, 3, 8, 7]
    assert match_labels([0, 1, 2, 2], [4, 4, 4, 4]).tolist() == [2, 2, 2, 2]


@given(labellings)
def test_overlap_is_the_greatest_of_all_namings_and_the_partition_stays(case) -> None:
    reference, other = map(np.asarray, case)
    renamed = match_labels(reference, other)
    best = max(int((reference == np.array(p)[other]).sum()) for p in permutations(range(4)))
    assert int((renamed == reference).sum()) == best
    together = other[:, None] == other
    np.testing.assert_array_equal(renamed[:, None] == renamed, together)


def test_what_cannot_be_matched(monkeypatch) -> None:
    with pytest.raises(DataError, match="2 labels, the other 3"):
        contingency([0, 1], [0, 1, 1])
    with pytest.raises(DataError, match=r"shape \(1, 2\); one label per sample"):
        contingency([[0, 1]], [[0, 1]])
    with pytest.raises(DataError, match="Some labels are missing"):
        as_codes(np.array(["a", None], dtype=object))
    with pytest.raises(DataError, match="whole numbers are expected"):
        match_labels(["a"], [0])
    monkeypatch.setattr(matching, "MOST_CELLS", 11)
    with pytest.raises(DataError, match=r"3 and 4 different values.*measurements"):
        contingency([0, 1, 2, 2], [0.1, 0.2, 0.3, 0.4])


# -- into the same places --------------------------------------------------------------------------


def test_places_by_hand() -> None:
    found = align_labels([2, 2, 0, 0, 1, 0], [0, 0, 1, 1, 2, 2], 3)
    assert found.tolist() == [2, 2, 0, 0, 1, 1]
    assert found.dtype == np.int64


def test_an_empty_place_is_filled_again() -> None:
    found = align_labels(torch.tensor([2, 2, 2, 2]), torch.tensor([0, 0, 0, 1]), 3)
    assert found[:3].tolist() == [2, 2, 2]
    assert found[3] in (0, 1)
    one_for_all = align_labels([0, 1, 2, 3], [2, 2, 2, 2], 4)
    assert len(set(one_for_all.tolist())) == 1


@given(labellings)
def test_places_have_the_greatest_overlap_of_all_permutations(case) -> None:
    reference, other = map(np.asarray, case)
    found = align_labels(reference, other, 4)
    best = max(int((reference == np.array(p)[other]).sum()) for p in permutations(range(4)))
    assert int((found == reference).sum()) == best
    assert found.min() >= 0
    assert found.max() < 4
    np.testing.assert_array_equal(found[:, None] == found, other[:, None] == other)


def test_labels_that_have_no_place() -> None:
    with pytest.raises(DataError, match="whole numbers from 0 to 1 are expected"):
        align_labels([0, 1], [0, 2], 2)
    with pytest.raises(DataError, match="from -1 to 1; whole numbers from 0 to 1"):
        align_labels([-1, 1], [0, 1], 2)
    with pytest.raises(DataError, match="type float64"):
        align_labels([0.0, 1.0], [0, 1], 2)
    with pytest.raises(DataError, match=r"shapes \(2,\) and \(3,\)"):
        align_labels([0, 1], [0, 1, 1], 2)
