from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from dwcl.losses import infonce, rince

PAIRS = [(0, 1), (1, 0), (1, 1), (2, 0)]


def views(b: int, seed: int, d: int = 4, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(3, b, d, generator=generator, dtype=dtype)
    return list(functional.normalize(drawn, dim=2))


def slow_rince(
    z_v: Tensor, z_w: Tensor, temperature: float, q: float, density: float
) -> list[float]:
    b = len(z_v)
    rows = [*z_v, *z_w]
    losses = []
    for a in range(2 * b):
        partner = (a + b) % (2 * b)
        terms = {c: math.exp(float(rows[a] @ rows[c]) / temperature) for c in range(2 * b)}
        positive = terms[partner]
        negative = sum(term for c, term in terms.items() if c not in (a, partner))
        losses.append(-(positive**q) / q + (density * (positive + negative)) ** q / q)
    return losses


def test_two_samples_by_hand() -> None:
    z_v = torch.tensor([[1.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
    z_w = torch.tensor([[1.0, 0.0], [0.6, 0.8]], dtype=torch.float64)
    (found,) = rince([z_v, z_w], [(0, 1)], 0.5, exponent=0.5, density=0.001)
    positives = [7.389056, 4.953032, 7.389056, 4.953032]
    negatives = [4.320117, 2.0, 4.320117, 6.640234]
    by_hand = [
        2 * (math.sqrt(0.001 * (p + n)) - math.sqrt(p))
        for p, n in zip(positives, negatives, strict=True)
    ]
    assert found.tolist() == pytest.approx(by_hand, abs=1e-6)
    assert found.mean().item() == pytest.approx(-4.740085, abs=1e-6)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("b", [1, 2, 5])
@pytest.mark.parametrize(
    ("temperature", "q", "density"), [(0.5, 0.5, 0.001), (0.2, 1.0, 0.01), (1.0, 0.1, 0.3)]
)
def test_it_is_the_definition_pair_by_pair(
    seed: int, b: int, temperature: float, q: float, density: float
) -> None:
    zs = views(b, seed)
    found = rince(zs, PAIRS, temperature, exponent=q, density=density)
    assert found.shape == (len(PAIRS), 2 * b)
    for row, (v, w) in zip(found, PAIRS, strict=True):
        expected = slow_rince(zs[v], zs[w], temperature, q, density)
        assert row.tolist() == pytest.approx(expected, rel=1e-10)


def test_small_exponents_lead_to_infonce() -> None:
    zs = views(6, 3)
    found = rince(zs, PAIRS, 0.5, exponent=1e-6, density=0.02)
    expected = infonce(zs, PAIRS, 0.5) + math.log(0.02)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)


def test_the_pair_is_symmetric_and_samples_have_no_order() -> None:
    zs = views(5, 4)
    there, back = rince(zs, [(0, 1), (1, 0)], 0.5, exponent=0.5, density=0.001)
    torch.testing.assert_close(there, torch.cat([back[5:], back[:5]]))
    order = torch.tensor([3, 0, 4, 1, 2])
    moved = rince([z[order] for z in zs], [(0, 1)], 0.5, exponent=0.5, density=0.001)[0]
    torch.testing.assert_close(moved, there[torch.cat([order, order + 5])])


@pytest.mark.parametrize("q", [0.5, 1.0])
def test_gradients_are_those_of_finite_differences(q: float) -> None:
    zs = tuple(z.requires_grad_() for z in views(3, 1, d=3))
    assert torch.autograd.gradcheck(lambda *z: rince(z, PAIRS, 0.5, exponent=q, density=0.001), zs)


def test_one_sample_and_equal_rows_stay_finite() -> None:
    for b in (1, 4):
        z = torch.ones(b, 1).requires_grad_()
        found = rince([z, z], [(0, 1), (0, 0)], 0.5, exponent=0.5, density=0.001)
        found.mean().backward()
        assert found.isfinite().all()
        assert z.grad is not None
        assert z.grad.isfinite().all()
