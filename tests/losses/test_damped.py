from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from dwcl.losses import damped_infonce, infonce

PAIRS = [(0, 2), (1, 2), (1, 1)]


def views(b: int, seed: int, d: int = 4, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(3, b, d, generator=generator, dtype=dtype)
    return list(functional.normalize(drawn, dim=2))


def damping(b: int, seed: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.rand(b, b, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def slow_damped(z_v: Tensor, z_w: Tensor, temperature: float, p: Tensor) -> list[float]:
    b = len(z_v)
    rows = [*z_v, *z_w]
    losses = []
    for a in range(2 * b):
        partner = (a + b) % (2 * b)
        positive = float(rows[a] @ rows[partner]) / temperature
        negatives = [
            (1 - float(p[a % b, c % b])) * float(rows[a] @ rows[c]) / temperature
            for c in range(2 * b)
            if c not in (a, partner)
        ]
        total = math.exp(positive) + sum(math.exp(value) for value in negatives)
        losses.append(math.log(total) - positive)
    return losses


G = torch.tensor([[1.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
F = torch.tensor([[1.0, 0.0], [0.6, 0.8]], dtype=torch.float64)
P = torch.tensor([[0.6, 0.4], [0.25, 0.75]], dtype=torch.float64)


def test_two_samples_by_hand() -> None:
    (found,) = damped_infonce([G, F], [(0, 1)], 0.5, P)
    # the last row: positive 1.6, twice the negative (1 − 0.25) · 1.2
    last = math.log(math.exp(1.6) + 2 * math.exp(0.9)) - 1.6
    assert found[3].item() == pytest.approx(last, rel=1e-12)
    assert found.tolist() == pytest.approx([0.345979, 0.339178, 0.345979, 0.689727], abs=1e-6)
    assert found.mean().item() == pytest.approx(0.430216, abs=1e-6)


def test_the_ends_of_the_damping_by_hand() -> None:
    none = damped_infonce([G, F], [(0, 1)], 0.5, torch.zeros_like(P))
    assert none.mean().item() == pytest.approx(0.527587, abs=1e-6)
    full = damped_infonce([G, F], [(0, 1)], 0.5, torch.ones_like(P))
    assert full.mean().item() == pytest.approx(0.289361, abs=1e-6)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("b", [1, 2, 5])
@pytest.mark.parametrize("temperature", [0.2, 0.5, 2.0])
def test_it_is_the_definition_pair_by_pair(seed: int, b: int, temperature: float) -> None:
    zs, p = views(b, seed), damping(b, seed)
    found = damped_infonce(zs, PAIRS, temperature, p)
    assert found.shape == (len(PAIRS), 2 * b)
    for row, (v, w) in zip(found, PAIRS, strict=True):
        expected = slow_damped(zs[v], zs[w], temperature, p)
        assert row.tolist() == pytest.approx(expected, rel=1e-10, abs=1e-12)
    plain = damped_infonce(zs, PAIRS, temperature, torch.zeros_like(p))
    torch.testing.assert_close(plain, infonce(zs, PAIRS, temperature))


def test_rows_of_the_damping_belong_to_rows_of_samples() -> None:
    zs, p = views(5, 3), damping(5, 3)
    found = damped_infonce(zs, PAIRS, 0.5, p)
    own = p.clone()
    own.fill_diagonal_(0.3)
    assert torch.equal(damped_infonce(zs, PAIRS, 0.5, own), found)
    assert (damped_infonce(zs, PAIRS, 0.5, p.T) - found).abs().max() > 1e-3
    there, back = damped_infonce(zs, [(0, 1), (1, 0)], 0.5, p)
    torch.testing.assert_close(there, torch.cat([back[5:], back[:5]]))
    order = torch.tensor([2, 4, 0, 1, 3])
    moved = damped_infonce([z[order] for z in zs], PAIRS, 0.5, p[order][:, order])
    torch.testing.assert_close(moved, found[:, torch.cat([order, order + 5])])


def test_gradients_reach_the_rows_and_the_damping() -> None:
    zs = [z.requires_grad_() for z in views(3, 1, d=3)]
    p = damping(3, 1).requires_grad_()
    assert torch.autograd.gradcheck(lambda p, *z: damped_infonce(z, PAIRS, 0.5, p), (p, *zs))


@pytest.mark.parametrize("temperature", [1e-4, 1e-2])
def test_one_sample_and_tiny_temperatures_stay_finite(temperature: float) -> None:
    for b in (1, 17):
        zs = [z.requires_grad_() for z in views(b, 0, dtype=torch.float32)]
        p = damping(b, 0, torch.float32).requires_grad_()
        found = damped_infonce(zs, PAIRS, temperature, p)
        found.mean().backward()
        assert found.isfinite().all()
        assert all(z.grad is not None and z.grad.isfinite().all() for z in [*zs, p])
        if b == 1:
            assert torch.equal(found, torch.zeros(len(PAIRS), 2))
