from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from dwcl.losses import deep_divergence
from dwcl.losses.divergence import cauchy_schwarz, gaussian_kernel


def tensor(rows: list[list[float]]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def drawn(b: int, k: int, seed: int, d: int = 5) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    h = torch.randn(b, d, generator=generator, dtype=torch.float64)
    return h, torch.randn(b, k, generator=generator, dtype=torch.float64).softmax(1)


def slow_kernel(h: Tensor) -> tuple[list[list[float]], float]:
    points = h.tolist()
    b = len(points)
    far = [[math.dist(one, other) ** 2 for other in points] for one in points]
    scale = max(0.15 * sorted(entry for row in far for entry in row)[(b * b - 1) // 2], 1e-9)
    return [[math.exp(-far[i][j] / (2 * scale)) for j in range(b)] for i in range(b)], scale


def slow_divergence(w: list[list[float]], kernel: list[list[float]]) -> float:
    b, k = len(w), len(w[0])
    shared = [
        [
            sum(w[i][a] * kernel[i][j] * w[j][c] for i in range(b) for j in range(b))
            for c in range(k)
        ]
        for a in range(k)
    ]
    total = 0.0
    for a in range(k):
        for c in range(a + 1, k):
            own = max(shared[a][a] * shared[c][c], 1e-18)
            total += max(shared[a][c], 1e-9) / math.sqrt(own)
    return 2 / (k * (k - 1)) * total


def slow_terms(h: Tensor, q: Tensor) -> list[float]:
    kernel, _ = slow_kernel(h)
    rows = q.tolist()
    b, k = q.shape
    alike = sum(
        sum(p * r for p, r in zip(rows[i], rows[j], strict=True))
        for i in range(b)
        for j in range(i + 1, b)
    )
    corners = [
        [math.exp(-sum((row[c] - (c == e)) ** 2 for c in range(k))) for e in range(k)]
        for row in rows
    ]
    return [
        slow_divergence(rows, kernel),
        2 / (b * (b - 1)) * alike,
        slow_divergence(corners, kernel),
    ]


# -- values by hand --------------------------------------------------------------------------------

TWO_SPOTS = tensor([[0, 0], [0, 0], [2, 0], [2, 0]])
CRISP = tensor([[1, 0], [1, 0], [0, 1], [0, 1]])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_perfect_uniform_and_collapsed_clusters_of_two_spots(dtype: torch.dtype) -> None:
    h = TWO_SPOTS.to(dtype)
    kernel = gaussian_kernel(h)
    assert torch.equal(kernel, torch.block_diag(*[torch.ones(2, 2, dtype=dtype)] * 2))
    perfect = deep_divergence(h, CRISP.to(dtype)).tolist()
    assert perfect == pytest.approx([2.5e-10, 1 / 3, 1 / math.cosh(2)], rel=1e-6)
    assert perfect[2] == pytest.approx(0.265802, abs=1e-6)
    uniform = deep_divergence(h, torch.full((4, 2), 0.5, dtype=dtype)).tolist()
    assert uniform == pytest.approx([1, 0.5, 1], rel=1e-6)
    single = torch.tensor([[1.0, 0.0]] * 4, dtype=dtype)
    assert deep_divergence(h, single).tolist() == pytest.approx([1, 1, 1], rel=1e-6)


def test_three_samples_in_a_row() -> None:
    h, q = tensor([[0], [1], [3]]), tensor([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]])
    kernel = gaussian_kernel(h)
    assert kernel[0, 1].item() == pytest.approx(math.exp(-1 / 0.3))
    assert kernel[0, 1].item() == pytest.approx(0.035674, abs=1e-6)
    assert kernel[1, 2].item() == pytest.approx(1.62e-6, abs=5e-9)
    assert deep_divergence(h, q).tolist() == pytest.approx([0.501270, 0.426667, 0.610022], abs=1e-6)


@pytest.mark.parametrize(("k", "expected"), [(2, 0.265802), (10, 0.358157), (5, None)])
def test_balanced_clusters_far_apart(k: int, expected: float | None) -> None:
    each, n = 4, 4 * k
    crisp = torch.eye(k, dtype=torch.float64).repeat_interleave(each, 0)
    apart, alike, _ = deep_divergence(1e3 * crisp, crisp).tolist()
    # of more than two clusters, equally far from each other, the median is that very distance
    assert apart == pytest.approx(1e-9 / each**2 if k == 2 else math.exp(-1 / 0.3))
    assert alike == pytest.approx((n / k - 1) / (n - 1))
    to_corners = torch.cdist(crisp, torch.eye(k, dtype=torch.float64)).square()
    at_corners = cauchy_schwarz((-to_corners).exp(), crisp @ crisp.T).item()  # κ of no overlap
    e = math.exp
    closed = (2 * e(-2) + (k - 2) * e(-4)) / (1 + (k - 1) * e(-4))
    assert at_corners == pytest.approx(closed)
    assert expected is None or at_corners == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("k", [2, 3, 7])
def test_uniform_assignments_under_any_kernel(k: int) -> None:
    h, _ = drawn(9, k, 0)
    terms = deep_divergence(h, torch.full((9, k), 1 / k, dtype=torch.float64))
    assert terms.tolist() == pytest.approx([1, 1 / k, 1])


# -- against the definition ------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize(("b", "k"), [(2, 2), (5, 3), (8, 4)])
def test_it_is_the_definition_by_plain_loops(seed: int, b: int, k: int) -> None:
    h, q = drawn(b, k, seed)
    kernel, _ = slow_kernel(h)
    torch.testing.assert_close(gaussian_kernel(h), tensor(kernel))
    assert deep_divergence(h, q).tolist() == pytest.approx(slow_terms(h, q), rel=1e-9)
    rounded = deep_divergence(h.float(), q.float())
    assert rounded.tolist() == pytest.approx(slow_terms(h, q), rel=1e-4)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_names_order_and_scale_have_no_influence(seed: int) -> None:
    h, q = drawn(9, 4, seed)
    terms = deep_divergence(h, q)
    generator = torch.Generator().manual_seed(seed)
    clusters, samples = (torch.randperm(n, generator=generator) for n in (4, 9))
    torch.testing.assert_close(deep_divergence(h, q[:, clusters]), terms)
    torch.testing.assert_close(deep_divergence(h[samples], q[samples]), terms)
    torch.testing.assert_close(deep_divergence(1e3 * h + 7, q), terms)
    assert (deep_divergence(h[samples], q) - terms).abs().max() > 1e-4


# -- gradients and edges ---------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_gradients_are_those_of_finite_differences(seed: int) -> None:
    h, q = drawn(6, 3, seed)
    assert torch.autograd.gradcheck(lambda q: deep_divergence(h, q), q.requires_grad_())
    # The scale carries no gradient, so it must not move: one row is, that does not decide it.
    far = torch.cdist(h, h).square()
    pair = (far == far.median()).nonzero().flatten().tolist()
    free = next(i for i in range(6) if i not in pair)

    def of_row(row: Tensor) -> Tensor:
        return deep_divergence(torch.cat([h[:free], row, h[free + 1 :]]), q.detach())

    row = h[free : free + 1].clone().requires_grad_()
    assert torch.autograd.gradcheck(of_row, row)


def test_the_scale_carries_no_gradient() -> None:
    h, q = drawn(6, 3, 3)
    h.requires_grad_()
    _, scale = slow_kernel(h.detach())
    fixed = (-torch.cdist(h, h).square() / (2 * scale)).exp()
    (expected,) = torch.autograd.grad(cauchy_schwarz(q, fixed), h)
    (found,) = torch.autograd.grad(cauchy_schwarz(q, gaussian_kernel(h)), h)
    torch.testing.assert_close(found, expected)


def test_what_lies_below_the_floors_carries_no_gradient() -> None:
    w = tensor([[1e-6, 0.0], [0.0, 1e-6]]).requires_grad_()
    found = cauchy_schwarz(w, torch.eye(2, dtype=torch.float64))
    assert found.item() == pytest.approx(1.0)  # 1e-9 over the root of 1e-18
    (gradient,) = torch.autograd.grad(found, w)
    assert torch.equal(gradient, torch.zeros_like(w))


@pytest.mark.parametrize(("b", "k"), [(1, 3), (5, 1), (1, 1)])
def test_without_pairs_the_terms_are_nothing(b: int, k: int) -> None:
    h, q = drawn(b, k, 0)
    q.requires_grad_()
    apart, alike, at_corners = terms = deep_divergence(h, q)
    if k == 1:
        assert (apart.item(), at_corners.item()) == (0, 0)
    if b == 1:
        assert alike.item() == 0
    (gradient,) = torch.autograd.grad(terms.sum(), q)
    assert gradient.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equal_features_leave_everything_finite(dtype: torch.dtype) -> None:
    h = torch.ones(6, 3, dtype=dtype, requires_grad=True)
    q = drawn(6, 2, 0)[1].to(dtype).requires_grad_()
    terms = deep_divergence(h, q)
    assert terms[0].item() == pytest.approx(1, rel=1e-5)  # whatever the assignments are
    terms.sum().backward()
    assert h.grad is not None
    assert h.grad.isfinite().all()
    assert q.grad is not None
    assert q.grad.isfinite().all()
