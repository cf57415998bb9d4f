from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from dwcl.losses import infonce

PAIRS = [(0, 1), (1, 0), (1, 1), (2, 0), (0, 0)]


def unit_rows(b: int, d: int, seed: int, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return functional.normalize(torch.randn(b, d, generator=generator, dtype=dtype), dim=1)


def views(b: int, seed: int, n_views: int = 3, d: int = 4) -> list[Tensor]:
    return [unit_rows(b, d, 10 * seed + v) for v in range(n_views)]


def slow_infonce(z_v: Tensor, z_w: Tensor, temperature: float) -> list[float]:
    """The definition, row by row: 2b rows, the partner positive, the row itself left out."""
    b = len(z_v)
    stacked = [*z_v.tolist(), *z_w.tolist()]
    losses = []
    for a in range(2 * b):
        partner = (a + b) % (2 * b)
        similar = [
            sum(p * q for p, q in zip(stacked[a], stacked[c], strict=True)) / temperature
            for c in range(2 * b)
        ]
        top = max(similar[c] for c in range(2 * b) if c != a)
        rest = sum(math.exp(similar[c] - top) for c in range(2 * b) if c != a)
        losses.append(-similar[partner] + top + math.log(rest))
    return losses


class CountProducts(TorchDispatchMode):
    """Counts the matrix products that are really computed."""

    def __init__(self) -> None:
        super().__init__()
        self.products = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.overloadpacket in (torch.ops.aten.mm, torch.ops.aten.addmm):
            self.products += 1
        if func.overloadpacket in (torch.ops.aten.bmm, torch.ops.aten.baddbmm):
            self.products += len(args[0])  # a batch of products
        return func(*args, **(kwargs or {}))


# -- values by hand --------------------------------------------------------------------------------

Z_V = torch.tensor([[1.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
Z_W = torch.tensor([[1.0, 0.0], [0.6, 0.8]], dtype=torch.float64)


def test_two_samples_by_hand() -> None:
    e = math.exp
    by_hand = [
        # similarity of a row to the other three, its partner's in front
        math.log(e(1.0) + e(0.0) + e(0.6)) - 1.0,
        math.log(e(0.8) + e(0.0) + e(0.0)) - 0.8,
        math.log(e(1.0) + e(0.0) + e(0.6)) - 1.0,
        math.log(e(0.8) + e(0.6) + e(0.6)) - 0.8,
    ]
    (found,) = infonce([Z_V, Z_W], [(0, 1)], 1.0).tolist()
    assert found == pytest.approx(by_hand, rel=1e-12)
    assert found == pytest.approx([0.712067, 0.641147, 0.712067, 0.969817], abs=1e-6)
    assert sum(found) / 4 == pytest.approx(0.758774, abs=2e-6)


def test_a_view_with_itself_by_hand() -> None:
    found = infonce([Z_V, Z_W], [(0, 0), (1, 1)], 1.0)
    assert found[0].tolist() == pytest.approx([math.log(math.e + 2) - 1] * 4, rel=1e-12)
    assert found[0].mean().item() == pytest.approx(0.551445, abs=1e-6)
    assert found[1].tolist() == pytest.approx(
        [math.log(math.e + 2 * math.exp(0.6)) - 1] * 4, rel=1e-12
    )
    assert found[1].mean().item() == pytest.approx(0.850424, abs=1e-6)


def test_temperature_divides_the_similarities() -> None:
    (found,) = infonce([Z_V, Z_W], [(0, 1)], 0.5).tolist()
    assert found[1] == pytest.approx(math.log(math.exp(1.6) + 2) - 1.6, rel=1e-12)


# -- against the definition ------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("b", [1, 2, 5])
@pytest.mark.parametrize("temperature", [0.05, 0.5, 1.0, 5.0])
def test_many_pairs_at_once_are_the_definition_pair_by_pair(
    seed: int, b: int, temperature: float
) -> None:
    zs = views(b, seed)
    found = infonce(zs, PAIRS, temperature)
    assert found.shape == (len(PAIRS), 2 * b)
    for row, (v, w) in zip(found, PAIRS, strict=True):
        assert row.tolist() == pytest.approx(
            slow_infonce(zs[v], zs[w], temperature), rel=1e-10, abs=1e-12
        )
        alone = infonce(zs, [(v, w)], temperature)[0]
        torch.testing.assert_close(row, alone, rtol=1e-13, atol=1e-13)


@given(
    seed=st.integers(0, 1000),
    b=st.integers(1, 7),
    d=st.integers(1, 5),
    temperature=st.floats(0.05, 10),
)
def test_it_is_the_cross_entropy_of_the_masked_gram_matrix(
    seed: int, b: int, d: int, temperature: float
) -> None:
    z_v, z_w = unit_rows(b, d, seed), unit_rows(b, d, seed + 1)
    stacked = torch.cat([z_v, z_w])
    gram = (stacked @ stacked.T / temperature).fill_diagonal_(-math.inf)
    partner = (torch.arange(2 * b) + b) % (2 * b)
    expected = functional.cross_entropy(gram, partner, reduction="none")
    torch.testing.assert_close(infonce([z_v, z_w], [(0, 1)], temperature)[0], expected)


# -- what it must not depend on --------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1])
def test_the_pair_is_symmetric(seed: int) -> None:
    b = 5
    zs = views(b, seed)
    there, back = infonce(zs, [(0, 1), (1, 0)], 0.3)
    torch.testing.assert_close(there, torch.cat([back[b:], back[:b]]))


def test_permuting_samples_permutes_rows() -> None:
    b = 6
    zs = views(b, 4)
    order = torch.randperm(b, generator=torch.Generator().manual_seed(0))
    found = infonce([z[order] for z in zs], PAIRS, 0.7)
    rows = torch.cat([order, order + b])
    torch.testing.assert_close(found, infonce(zs, PAIRS, 0.7)[:, rows])


def test_views_without_a_pair_are_left_alone() -> None:
    zs = [z.requires_grad_() for z in views(4, 0)]
    infonce(zs, [(0, 2)], 1.0).mean().backward()
    assert zs[1].grad is None
    assert zs[0].grad is not None


# -- gradients -------------------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [0.2, 1.0])
def test_gradients_are_those_of_finite_differences(temperature: float) -> None:
    zs = tuple(z.requires_grad_() for z in views(3, 1, d=3))
    assert torch.autograd.gradcheck(lambda *z: infonce(z, PAIRS, temperature), zs)


def test_one_sample_has_nothing_to_contrast() -> None:
    zs = [unit_rows(1, 4, v, torch.float32).requires_grad_() for v in range(3)]
    found = infonce(zs, PAIRS, 0.1)
    assert torch.equal(found, torch.zeros(len(PAIRS), 2))
    found.sum().backward()
    for z in zs:
        assert z.grad is not None
        assert torch.equal(z.grad, torch.zeros(1, 4))


@pytest.mark.parametrize("temperature", [1e-8, 1e-4, 1e-2])
@pytest.mark.parametrize("b", [1, 2, 33])
def test_tiny_temperatures_stay_finite(temperature: float, b: int) -> None:
    zs = [unit_rows(b, 4, v, torch.float32).requires_grad_() for v in range(3)]
    found = infonce(zs, PAIRS, temperature)
    found.mean().backward()
    assert found.isfinite().all()
    assert all(z.grad is not None and z.grad.isfinite().all() for z in zs)


def test_repulsion_alone_spreads_a_view() -> None:
    z = unit_rows(6, 3, 0).requires_grad_()
    (gradient,) = torch.autograd.grad(infonce([z], [(0, 0)], 1.0).mean(), z)
    spread = functional.normalize(z - 0.1 * gradient, dim=1)
    assert spread.mean(0).norm() < z.mean(0).norm()


# -- how much is computed --------------------------------------------------------------------------


def count(n_views: int, pairs: Sequence[tuple[int, int]]) -> int:
    zs = views(4, 0, n_views)
    with CountProducts() as counter:
        infonce(zs, pairs, 1.0)
    return counter.products


@pytest.mark.parametrize("n_views", [1, 2, 3, 6, 10])
def test_best_other_takes_a_number_of_products_linear_in_the_views(n_views: int) -> None:
    best = n_views // 2
    pairs = [(v, best) for v in range(n_views)]
    assert len(pairs) == n_views
    # each view within itself, and each but the best across with the best
    assert count(n_views, pairs) == n_views + (n_views - 1)


@pytest.mark.parametrize("n_views", [1, 2, 3, 6, 10])
def test_pairwise_takes_a_number_of_products_quadratic_in_the_views(n_views: int) -> None:
    pairs = list(itertools.combinations_with_replacement(range(n_views), 2))
    assert count(n_views, pairs) == n_views + n_views * (n_views - 1) // 2


# -- values that other methods state ---------------------------------------------------------------


def test_published_values_at_half_the_temperature() -> None:
    eye = torch.eye(2, dtype=torch.float64)
    turned = torch.tensor(
        [[math.cos(math.pi / 6), 0.5], [-0.5, math.cos(math.pi / 6)]], dtype=torch.float64
    )
    for other, expected in ((eye, 0.239545), (eye.flip(0), 2.239545), (turned, 0.361123)):
        found = infonce([eye, other], [(0, 1)], 0.5).mean().item()
        assert found == pytest.approx(expected, abs=1e-6)
    same = torch.ones(256, 1, dtype=torch.float64)
    alike = infonce([same, same], [(0, 1)], 0.5).mean().item()
    assert alike == pytest.approx(math.log(2 * 256 - 1), rel=1e-12)
    assert alike == pytest.approx(6.23637, abs=1e-5)
