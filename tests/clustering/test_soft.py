"""Soft assignments: sharpened, and averaged over views."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from dwcl.clustering.soft import mean_assignment, sharpened


def soft(n: int, k: int, seed: int, n_views: int = 3) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(n_views, n, k, generator=generator, dtype=torch.float64)
    return list(drawn.softmax(dim=2))


def tensor(rows: list[list[float]]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


@pytest.mark.parametrize(
    ("q", "expected"),
    [
        ([[0.9, 0.1], [0.6, 0.4]], [[0.964286, 0.035714], [0.428571, 0.571429]]),
        (
            [[0.9, 0.1], [0.2, 0.8], [0.5, 0.5]],
            [[0.986087, 0.013913], [0.051852, 0.948148], [0.466667, 0.533333]],
        ),
        ([[0.9, 0.1], [0.2, 0.8]], [[0.985135, 0.014865], [0.048649, 0.951351]]),
        ([[0.8, 0.2], [0.3, 0.7]], [[0.929032, 0.070968], [0.130645, 0.869355]]),
    ],
)
def test_sharpened_values(q: list[list[float]], expected: list[list[float]]) -> None:
    torch.testing.assert_close(sharpened(tensor(q)), tensor(expected), rtol=0, atol=5e-7)


def test_uniform_and_crisp_assignments_stay() -> None:
    uniform, crisp = torch.full((5, 4), 0.25), torch.eye(3)[[0, 2, 1, 0]]
    torch.testing.assert_close(sharpened(uniform), uniform)
    torch.testing.assert_close(sharpened(crisp), crisp)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("n", [1, 6])
def test_sharpened_is_the_definition_by_plain_loops(seed: int, n: int) -> None:
    qs = soft(n, 4, seed)
    found = sharpened(torch.stack(qs))
    for q, of_view in zip(qs, found, strict=True):
        f = [sum(float(q[i, c]) for i in range(n)) for c in range(4)]
        for i in range(n):
            u = [float(q[i, c]) ** 2 / f[c] for c in range(4)]
            assert of_view[i].tolist() == pytest.approx([value / sum(u) for value in u], rel=1e-12)


def test_gradients_of_the_sharpening_include_those_of_the_mass() -> None:
    q = soft(3, 3, 0)[0].requires_grad_()
    assert torch.autograd.gradcheck(sharpened, q)
    weights = torch.rand(3, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    (through,) = torch.autograd.grad((weights * sharpened(q)).sum(), q)
    fixed = q.square() / q.sum(0).detach()
    fixed = fixed / fixed.sum(1, keepdim=True)
    (without,) = torch.autograd.grad((weights * fixed).sum(), q)
    assert (through - without).abs().max() > 1e-3


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_an_empty_cluster_stays_empty_and_finite(dtype: torch.dtype) -> None:
    q = torch.tensor([[0.7, 0.3, 0.0], [0.2, 0.8, 0.0]], dtype=dtype).requires_grad_()
    found = sharpened(q)
    found.square().sum().backward()
    assert found[:, 2].tolist() == [0.0, 0.0]
    assert found.sum(1).tolist() == pytest.approx([1.0, 1.0])
    assert q.grad is not None
    assert q.grad.isfinite().all()
    tiny = torch.tensor([[1.0, 1e-30]], dtype=dtype).requires_grad_()
    sharpened(tiny)[0, 0].backward()
    assert tiny.grad is not None
    assert tiny.grad.isfinite().all()


def test_the_mean_over_all_views() -> None:
    qs = [tensor([[0.9, 0.1]]), tensor([[0.3, 0.7]])]
    assert mean_assignment(qs).tolist() == [pytest.approx([0.6, 0.4])]
    assert torch.equal(mean_assignment(qs[:1]), qs[0])


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_mean_over_the_views_that_are_there(seed: int) -> None:
    qs = soft(6, 3, seed)
    observed = torch.rand(6, 3, generator=torch.Generator().manual_seed(seed)) < 0.6
    observed[:, seed] = True
    found = mean_assignment(qs, observed)
    for i in range(6):
        present = [qs[v][i] for v in range(3) if observed[i, v]]
        torch.testing.assert_close(found[i], sum(present) / len(present))
    everything = torch.ones(6, 3, dtype=torch.bool)
    torch.testing.assert_close(mean_assignment(qs, everything), mean_assignment(qs))


def test_what_stands_in_a_missing_view_has_no_influence() -> None:
    qs = soft(2, 3, 0)
    observed = torch.tensor([[True, False, False], [True, True, True]])
    found = mean_assignment(qs, observed)
    assert torch.equal(found[0], qs[0][0])
    qs[1][0], qs[2][0] = torch.nan, torch.inf
    assert torch.equal(mean_assignment(qs, observed), found)
