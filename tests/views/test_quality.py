from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import silhouette_score

from dwcl.errors import SettingError
from dwcl.views import SilhouetteQuality, exponential_quality_weight
from dwcl.views.quality import finite


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_two_tight_groups_by_hand() -> None:
    features = torch.tensor([[0.0], [1.0], [10.0], [11.0]])
    labels = torch.tensor([0, 0, 1, 1])
    # a = 1 for all; b is the mean distance to the other group: 10.5 or 9.5
    expected = (2 * (1 - 1 / 10.5) + 2 * (1 - 1 / 9.5)) / 4
    found = SilhouetteQuality(100)(features, labels, generator())
    assert type(found) is float
    assert found == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("seed", [0, 1])
def test_up_to_the_budget_it_is_exact(seed: int) -> None:
    features = torch.randn(200, 5, generator=generator(seed))
    labels = torch.randint(0, 4, (200,), generator=generator(seed))
    expected = silhouette_score(features.numpy(), labels.numpy())
    assert SilhouetteQuality(200)(features, labels, generator()) == pytest.approx(
        expected, abs=1e-5
    )


def test_above_the_budget_the_generator_draws_the_sample() -> None:
    features = torch.randn(500, 5, generator=generator()) + 3 * torch.eye(5).repeat(100, 1)
    labels = torch.arange(5).repeat(100)
    measure = SilhouetteQuality(150)
    found = measure(features, labels, generator(1))
    assert found == measure(features, labels, generator(1))
    assert found != measure(features, labels, generator(2))
    exact = SilhouetteQuality(500)(features, labels, generator())
    assert found == pytest.approx(exact, abs=0.05)


@pytest.mark.parametrize(("n", "used"), [(100, 100), (150, 150), (151, 150), (9999, 150)])
def test_the_number_of_samples_is_known_beforehand(n: int, used: int) -> None:
    assert SilhouetteQuality(150).samples_used(n) == used


def test_one_cluster_has_no_silhouette() -> None:
    features = torch.randn(9, 2, generator=generator())
    assert SilhouetteQuality(100)(features, torch.zeros(9, dtype=torch.int64), generator()) == 0


@given(
    v=st.floats(0, 1, exclude_min=True, exclude_max=True),
    w=st.floats(0, 1, exclude_min=True, exclude_max=True),
)
def test_the_weight_of_a_pair_lies_within_theorem_1(v: float, w: float) -> None:
    weight = exponential_quality_weight(v, w)
    assert 1 <= weight < math.e**2
    assert weight > 1 or v + w < 1e-15
    assert weight == pytest.approx(math.exp(v) * math.exp(w), rel=1e-14)
    assert weight == exponential_quality_weight(w, v)


def test_the_weight_by_hand() -> None:
    assert exponential_quality_weight(0.5, 0.25) == pytest.approx(2.1170000166, rel=1e-9)
    assert exponential_quality_weight(-0.5, 0.5) == 1.0


@pytest.mark.parametrize("value", [0.5, 1, -3, torch.tensor(0.25), True])
def test_numbers_pass(value: Any) -> None:
    assert finite(value, "quality of view 'a'") == float(value)


@pytest.mark.parametrize("value", [math.nan, math.inf, None, "high", [0.5], torch.zeros(2)])
def test_what_a_function_of_the_user_returns_is_checked(value: Any) -> None:
    with pytest.raises(SettingError, match=r"The quality of view 'a' is .*; the function that"):
        finite(value, "quality of view 'a'")
