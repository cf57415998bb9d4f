"""Matching of the names of clusters."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dwcl.clustering import matching
from dwcl.clustering.matching import as_codes, contingency, match_labels
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
