"""Distances to centres and the nearest of them."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dwcl.clustering.distances import assign, centre_distances, squared_distances
from dwcl.errors import DataError


def random(n: int, d: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn((n, d), generator=torch.Generator().manual_seed(seed), dtype=dtype)


def test_triangles() -> None:
    x = torch.tensor([[0.0, 0.0], [3.0, 4.0]])
    centres = torch.tensor([[0.0, 0.0], [3.0, 0.0], [0.0, 4.0]])
    assert centre_distances(x, centres).tolist() == [[0.0, 3.0, 4.0], [5.0, 4.0, 3.0]]
    found = assign(x, centres)
    assert found.labels.tolist() == [0, 2]
    assert found.distances.tolist() == [0.0, 3.0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_against_plain_loops(dtype: torch.dtype) -> None:
    x, centres = random(50, 7, 0, dtype), random(9, 7, 1, dtype)
    plain = [[math.dist(sample, centre) for centre in centres.tolist()] for sample in x.tolist()]
    found = centre_distances(x, centres, block_rows=16)
    assert found.dtype == dtype
    torch.testing.assert_close(found, torch.tensor(plain, dtype=dtype))


def test_the_first_of_equally_near_centres_wins() -> None:
    centres = torch.tensor([[2.0], [0.0], [2.0], [0.0]])
    assert assign(torch.tensor([[1.0], [2.1], [-1.0]]), centres).labels.tolist() == [0, 0, 1]


@given(st.integers(0, 50), st.sampled_from([1, 7, 256, None]))
def test_assignment_and_distances_never_disagree(seed: int, block_rows: int | None) -> None:
    x = random(60, 3, seed).mul(2).round()  # a grid: many ties
    centres = torch.cat([x[:5], x[:3], x[5:8] + 0.5])
    distances = centre_distances(x, centres, block_rows=block_rows)
    found = assign(x, centres, block_rows=block_rows)
    assert torch.equal(found.labels, distances.argmin(1))
    assert torch.equal(found.distances, distances.amin(1))
    assert torch.equal(found.distances[:5], torch.zeros(5))


def test_small_distances_survive_a_large_offset() -> None:
    centres = random(4, 3, 0, torch.float64) + 1e6
    x = centres + torch.tensor([1e-3, 0.0, 0.0], dtype=torch.float64)
    torch.testing.assert_close(
        assign(x, centres).distances, torch.full((4,), 1e-3, dtype=torch.float64), rtol=1e-6, atol=0
    )


def test_other_features_than_those_of_the_centres() -> None:
    with pytest.raises(DataError, match="samples have 3 features and the centres 2"):
        assign(torch.zeros(4, 3), torch.zeros(2, 2))
    with pytest.raises(DataError, match="The centres hold the value nan"):
        centre_distances(torch.zeros(4, 1), torch.tensor([[torch.nan]]))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_squared_distances_of_a_batch_by_plain_loops(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(6, 3, generator=generator, dtype=torch.float64)
    found = squared_distances(x)
    for i in range(6):
        for j in range(6):
            assert found[i, j].item() == pytest.approx(float((x[i] - x[j]).square().sum()))
    torch.testing.assert_close(squared_distances(x + 1e3), found)
    assert torch.autograd.gradcheck(squared_distances, x.requires_grad_())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_squared_distances_of_copies_are_zero(dtype: torch.dtype) -> None:
    x = torch.randn(9, 50, generator=torch.Generator().manual_seed(0), dtype=dtype)
    x = torch.cat([x, x[:5]]).requires_grad_()
    found = squared_distances(x)
    assert found.diagonal().tolist() == [0.0] * 14
    assert found[:5, 9:].diagonal().tolist() == [0.0] * 5
    assert found.min() >= 0
    (found + 1).sqrt().sum().backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()
    assert squared_distances(torch.ones(1, 3)).tolist() == [[0.0]]
