"""Donors for missing views: against a walk through neighbours, sample by sample."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from dwcl.clustering.donors import find_donors


def drawn(n: int, v: int, seed: int, lost: float = 0.3) -> tuple[list[Tensor], Tensor]:
    generator = torch.Generator().manual_seed(seed)
    features = [
        functional.normalize(torch.randn(n, 4, generator=generator), dim=1) for _ in range(v)
    ]
    observed = torch.rand(n, v, generator=generator) > lost
    observed[~observed.any(1), 0] = True
    observed[:5] = True
    hidden = [h.masked_fill(~observed[:, [w]], 0) for w, h in enumerate(features)]
    return hidden, observed


def walk(features: list[Tensor], observed: Tensor, i: int, v: int, k: int) -> list[int]:
    found: list[int] = []
    for w, h in enumerate(features):
        if w == v or not observed[i, w]:
            continue
        for j in (h.double() @ h[i].double()).argsort(descending=True, stable=True).tolist():
            if j == i or not (observed[j, v] and observed[j, w]):
                continue
            found.append(j)
            if len(found) >= k:
                break
    return found


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize(("n", "v", "k"), [(30, 2, 3), (40, 3, 3), (25, 4, 1), (12, 3, 8)])
def test_it_is_the_walk_of_each_sample(seed: int, n: int, v: int, k: int) -> None:
    features, observed = drawn(n, v, seed)
    donors = find_donors(features, observed, k)
    assert len(donors) == v
    for view, names in enumerate(donors):
        lacking = (~observed[:, view]).nonzero().flatten().tolist()
        assert len(names) == len(lacking)
        for i, row in zip(lacking, names.tolist(), strict=True):
            taken = [name for name in row if name >= 0]
            assert taken == walk(features, observed, i, view, k)
            assert row[len(taken) :] == [-1] * (len(row) - len(taken))


@pytest.mark.parametrize(("v", "expected"), [(2, 3), (3, 4), (5, 6)])
def test_of_complete_others_the_first_view_gives_three_and_each_further_one(
    v: int, expected: int
) -> None:
    features, observed = drawn(20, v, 0, lost=0)
    observed[7, 0] = False
    donors = find_donors(features, observed, 3)
    assert [(names >= 0).sum().item() for names in donors] == [expected] + [0] * (v - 1)
    order = (features[1] @ features[1][7]).argsort(descending=True).tolist()
    assert donors[0][0, :3].tolist() == [j for j in order if j != 7][:3]
    for further in range(2, v):
        order = (features[further] @ features[further][7]).argsort(descending=True).tolist()
        assert donors[0][0, 1 + further].item() == next(j for j in order if j != 7)


def test_a_copy_of_the_sample_can_be_a_donor_and_values_of_missing_views_have_no_influence() -> (
    None
):
    features, observed = drawn(10, 2, 3, lost=0)
    observed[4, 0] = observed[6, 0] = False
    features[1][9] = features[1][4]
    donors = find_donors(features, observed, 3)[0]
    assert donors[0, 0].item() == 9
    assert 6 not in donors[0].tolist()  # lacks the view itself
    features[0][4] = features[0][6] = 100.0
    assert torch.equal(find_donors(features, observed, 3)[0], donors)


def test_where_there_are_few_all_of_them_give() -> None:
    features, observed = drawn(6, 2, 0, lost=0)
    observed[2:, 0] = False
    donors = find_donors(features, observed, 3)
    assert [sorted(x for x in row if x >= 0) for row in donors[0].tolist()] == [[0, 1]] * 4
    assert donors[1].shape[0] == 0
