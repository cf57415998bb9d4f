from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from dwcl.losses import mutual_information_loss
from dwcl.losses.mutual_information import LEAST_SHARE

PAIRS = [(0, 1), (0, 2), (2, 1), (1, 1)]


def codes(b: int, seed: int, d: int = 4, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return list(torch.randn(3, b, d, generator=generator, dtype=dtype).mul(3).softmax(dim=2))


def slow(a: Tensor, c: Tensor, alpha: float) -> float:
    """Loops over samples and pairs of categories, on plain numbers."""
    d = a.shape[1]
    joint = [[0.0] * d for _ in range(d)]
    for one, other in zip(a.tolist(), c.tolist(), strict=True):
        for i in range(d):
            for j in range(d):
                joint[i][j] += one[i] * other[j] / 2
                joint[j][i] += one[i] * other[j] / 2
    total = math.fsum(map(math.fsum, joint))
    joint = [[value / total for value in row] for row in joint]
    rows = [max(math.fsum(row), LEAST_SHARE) for row in joint]
    columns = [max(math.fsum(column), LEAST_SHARE) for column in zip(*joint, strict=True)]
    return -math.fsum(
        p * (math.log(p) - alpha * math.log(rows[i]) - alpha * math.log(columns[j]))
        for i, row in enumerate(joint)
        for j, p in enumerate(max(value, LEAST_SHARE) for value in row)
    )


def loss(a: Tensor, c: Tensor, alpha: float = 10.0) -> float:
    (found,) = mutual_information_loss([a, c], [(0, 1)], alpha)
    return float(found)


def one_hot(d: int, repeats: int = 1) -> Tensor:
    return torch.eye(d, dtype=torch.float64).repeat(repeats, 1)


def test_two_samples_in_two_categories_by_hand() -> None:
    assert loss(one_hot(2), one_hot(2)) == pytest.approx(-19 * math.log(2), abs=1e-12)
    assert loss(one_hot(2), one_hot(2)) == pytest.approx(-13.169796, abs=1e-6)
    even = torch.full((3, 2), 0.5, dtype=torch.float64)
    assert loss(even, even) == pytest.approx(-12.476649, abs=1e-6)


def test_unsure_codes_by_hand() -> None:
    a = torch.tensor([[0.9, 0.1], [0.2, 0.8]], dtype=torch.float64)
    c = torch.tensor([[0.8, 0.2], [0.4, 0.6]], dtype=torch.float64)
    assert loss(a, c) == pytest.approx(-12.313963, abs=1e-6)
    assert loss(a, c, 1.0) == pytest.approx(-0.040581, abs=1e-6)


@pytest.mark.parametrize("d", [2, 5, 40, 128])
@pytest.mark.parametrize("alpha", [1.0, 9.0, 10.0])
def test_the_ends_of_the_range(d: int, alpha: float) -> None:
    even = torch.full((3, d), 1 / d, dtype=torch.float64)
    assert loss(even, even, alpha) == pytest.approx(-(2 * alpha - 2) * math.log(d), abs=1e-9)
    matched = loss(one_hot(d, 2), one_hot(d, 2), alpha)
    assert matched == pytest.approx(-(2 * alpha - 1) * math.log(d), abs=1e-8)
    collapsed = one_hot(d)[:1].expand(7, d)
    assert abs(loss(collapsed, collapsed, alpha)) < (1e-11 if d == 2 else 1e-8)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("b", [1, 2, 9])
def test_every_pair_against_loops(b: int, dtype: torch.dtype) -> None:
    zs = codes(b, 0, dtype=dtype)
    found = mutual_information_loss(zs, PAIRS, 10.0)
    assert found.dtype == dtype
    expected = [slow(zs[v].double(), zs[w].double(), 10.0) for v, w in PAIRS]
    assert found.tolist() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_order_of_views_samples_and_categories_has_no_influence(seed: int) -> None:
    a, c, _ = codes(8, seed)
    expected = pytest.approx(loss(a, c), rel=1e-12)
    assert loss(c, a) == expected
    generator = torch.Generator().manual_seed(seed)
    rows, columns = (torch.randperm(n, generator=generator) for n in (8, 4))
    assert loss(a[rows], c[rows]) == expected
    assert loss(a[:, columns], c[:, columns]) == expected
    assert loss(a, c[:, torch.tensor([1, 2, 3, 0])]) != expected


@pytest.mark.parametrize("seed", range(3))
def test_it_is_information_and_entropy(seed: int) -> None:
    """I = −MI − (α − 1)(H(r) + H(c)), so it grows by a constant with each unit of α."""
    a, c, _ = codes(8, seed)
    information = -loss(a, c, 1.0)
    assert information >= 0
    joint = (a.T @ c + c.T @ a) / 16
    entropy = -float((joint.sum(0) * joint.sum(0).log()).sum())
    for alpha in (2.0, 10.0):
        assert loss(a, c, alpha) == pytest.approx(-information - (alpha - 1) * 2 * entropy)


@pytest.mark.parametrize("b", [1, 5])
def test_the_gradient_is_right(b: int) -> None:
    xs = [x.requires_grad_() for x in codes(b, 1)]
    assert torch.autograd.gradcheck(lambda *zs: mutual_information_loss(zs, PAIRS, 10.0), xs)


def test_both_views_learn_and_replaced_shares_do_not() -> None:
    a = torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0]], dtype=torch.float64).requires_grad_()
    c = a.detach().clone().requires_grad_()
    mutual_information_loss([a, c], [(0, 1)], 10.0).sum().backward()
    for z in (a, c):
        assert z.grad is not None
        assert z.grad.isfinite().all()
        assert z.grad.abs().sum() > 0
    # By symmetry of P, the gradients of equal views are equal; where the third category has no
    # share at all, what is left of its gradient comes from the total that P is divided by.
    torch.testing.assert_close(a.grad, c.grad)
    torch.testing.assert_close(a.grad[0, 2], a.grad[1, 2])


def test_no_pairs_are_no_loss() -> None:
    found = mutual_information_loss(codes(4, 0)[:1], [], 10.0)
    assert found.shape == (0,)
    assert float(found.sum()) == 0
