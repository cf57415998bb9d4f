"""The picture of ranks joins methods that cannot be told apart."""

from __future__ import annotations

import math

import pytest

from dwcl.report.ranks import indistinct, ranks_figure

ORDERED = [("a", 1.0), ("b", 1.8), ("c", 2.5), ("d", 4.7)]


@pytest.mark.parametrize(
    ("difference", "groups"),
    [
        (1.0, [(0, 1), (1, 2)]),
        (2.0, [(0, 2)]),
        (0.5, []),
        (3.0, [(0, 2), (1, 3)]),
        (9.0, [(0, 3)]),
        (math.nan, []),
    ],
)
def test_groups_are_the_largest_ones(difference: float, groups: list[tuple[int, int]]) -> None:
    assert indistinct(ORDERED, difference) == groups


@pytest.mark.parametrize("difference", [1.0, math.nan])
@pytest.mark.parametrize("n", [2, 4])
def test_every_method_is_named_with_its_rank(n: int, difference: float) -> None:
    figure = ranks_figure(dict(ORDERED[:n]), difference, "ranks")
    texts = [text.get_text() for text in figure.axes[0].texts]
    for name, rank in ORDERED[:n]:
        assert any(name in text.split() and f"{rank:.2f}" in text for text in texts)
    assert any("critical difference" in text for text in texts) == math.isfinite(difference)
