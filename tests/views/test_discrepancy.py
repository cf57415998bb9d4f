"""The agreement of two clusterings."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import normalized_mutual_info_score

from dwcl.views.discrepancy import cmi

labellings = st.integers(1, 30).flatmap(
    lambda n: st.tuples(*[st.lists(st.integers(0, 4), min_size=n, max_size=n)] * 2)
)


def test_a_case_computed_by_hand() -> None:
    """I = 0.318257, entropies ln 2 and 0.636514."""
    found = cmi(torch.tensor([0, 0, 0, 1, 1, 1]), torch.tensor([0, 0, 1, 1, 1, 1]))
    assert found == pytest.approx(2 * 0.318257 / (math.log(2) + 0.636514), abs=1e-6)
    assert found == pytest.approx(0.478704, abs=1e-6)
    assert math.expm1(found) == pytest.approx(0.613981, abs=2e-6)


def test_the_ends_of_the_range() -> None:
    labels = torch.tensor([0, 1, 2, 0, 1, 2, 2])
    assert cmi(labels, torch.tensor([2, 0, 1])[labels]) == 1.0
    assert cmi(torch.tensor([0, 0, 1, 1]), torch.tensor([0, 1, 0, 1])) == pytest.approx(
        0.0, abs=1e-12
    )


def test_clusterings_of_one_cluster() -> None:
    constant, two = torch.zeros(4, dtype=torch.int64), torch.tensor([0, 1, 1, 0])
    assert cmi(constant, constant) == 1.0
    assert cmi(constant, constant + 3) == 1.0
    assert cmi(constant, two) == 0.0


@given(labellings)
def test_it_is_the_normalised_mutual_information(case: tuple[list[int], list[int]]) -> None:
    one, other = map(torch.tensor, case)
    found = cmi(one, other)
    assert found == pytest.approx(normalized_mutual_info_score(*case), abs=1e-9)
    assert 0.0 <= found <= 1.0
    assert found == cmi(other, one)
