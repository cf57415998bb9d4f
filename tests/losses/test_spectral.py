from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from dwcl.losses import spectral

PAIRS = [(0, 1), (1, 0), (1, 1), (2, 0)]


def views(b: int, seed: int, d: int = 4, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    """Rows of lengths on both sides of √3."""
    generator = torch.Generator().manual_seed(seed)
    return list(torch.randn(3, b, d, generator=generator, dtype=dtype))


def slow_spectral(z_v: Tensor, z_w: Tensor, radius: float) -> list[float]:
    def shortened(row: list[float]) -> list[float]:
        length = math.sqrt(sum(value**2 for value in row))
        if length < math.sqrt(radius):
            return row
        return [math.sqrt(radius) * value / length for value in row]

    left, right = ([shortened(row) for row in z.tolist()] for z in (z_v, z_w))
    b = len(left)

    def product(i: int, j: int) -> float:
        return sum(p * q for p, q in zip(left[i], right[j], strict=True))

    return [
        -2 * product(i, i) + sum(product(i, j) ** 2 for j in range(b) if j != i) / max(b - 1, 1)
        for i in range(b)
    ]


def pair(left: list[list[float]], right: list[list[float]]) -> Tensor:
    zs = [torch.tensor(rows, dtype=torch.float64) for rows in (left, right)]
    return spectral(zs, [(0, 1)])[0]


def test_unit_rows_by_hand() -> None:
    eye = [[1.0, 0.0], [0.0, 1.0]]
    # −2 · 1 + 0.6², −2 · 0.8 + 0²
    assert pair(eye, [[1, 0], [0.6, 0.8]]).tolist() == pytest.approx([-1.64, -1.6])
    assert pair(eye, [[1, 0], [0.6, 0.8]]).mean().item() == pytest.approx(-1.62)
    assert pair(eye, eye).mean().item() == -2.0
    assert (pair(eye, eye) / 2).tolist() == [-1.0, -1.0]
    assert pair([[1, 0], [1, 0]], [[1, 0], [1, 0]]).mean().item() == -1.0


def test_long_rows_by_hand() -> None:
    root = math.sqrt(3)
    scaled = [[root, 0.0], [0.0, root]]
    assert pair(scaled, scaled).mean().item() == pytest.approx(-6)
    found = pair([[3, 0], [0, 1]], [[1, 0], [1, 1]]) / 2
    assert found.tolist() == pytest.approx([-root + 1.5, -1.0])
    assert found.tolist() == pytest.approx([-0.232051, -1.0], abs=1e-6)
    assert found.sum().item() == pytest.approx(-1.232051, abs=1e-6)
    weights = torch.tensor([0.9, 0.1], dtype=torch.float64)
    assert (found @ weights / weights.sum()).item() == pytest.approx(-0.308846, abs=1e-6)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("b", [1, 2, 6])
@pytest.mark.parametrize("radius", [0.5, 3.0, 50.0])
def test_it_is_the_definition_pair_by_pair(seed: int, b: int, radius: float) -> None:
    zs = views(b, seed)
    found = spectral(zs, PAIRS, radius=radius)
    assert found.shape == (len(PAIRS), b)
    for row, (v, w) in zip(found, PAIRS, strict=True):
        assert row.tolist() == pytest.approx(slow_spectral(zs[v], zs[w], radius), rel=1e-10)


@pytest.mark.parametrize("seed", [0, 1])
def test_the_mean_is_symmetric_and_samples_have_no_order(seed: int) -> None:
    zs = views(6, seed)
    there, back = spectral(zs, [(0, 1), (1, 0)])
    assert there.mean().item() == pytest.approx(back.mean().item(), rel=1e-12)
    order = torch.randperm(6, generator=torch.Generator().manual_seed(seed))
    torch.testing.assert_close(spectral([z[order] for z in zs], [(0, 1)])[0], there[order])


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_gradients_go_through_the_directions_of_long_rows(seed: int) -> None:
    zs = tuple(z.requires_grad_() for z in views(3, seed, d=3))
    assert torch.autograd.gradcheck(lambda *z: spectral(z, PAIRS), zs)
    assert torch.autograd.gradgradcheck(lambda *z: spectral(z, [(0, 1)]).sum(), zs[:2])
    (along,) = torch.autograd.grad(spectral([10 * zs[0], zs[1]], [(0, 1)]).sum(), zs[0])
    # once a row is long, more length changes nothing
    assert (along * zs[0]).sum(1).abs().max() < 1e-12


def test_short_rows_are_not_touched() -> None:
    z = views(5, 0, dtype=torch.float32)[0]
    z = z / z.norm(dim=1, keepdim=True)
    assert torch.equal(spectral([z], [(0, 0)], radius=1e6), spectral([z], [(0, 0)]))


def test_one_sample_zero_rows_and_great_rows_stay_finite() -> None:
    assert spectral([torch.ones(1, 2)] * 2, [(0, 1)]).tolist() == [[-4.0]]
    z = torch.tensor([[0.0, 0.0], [1e30, 0.0], [1e-30, 0.0]]).requires_grad_()
    found = spectral([z, z.detach()], [(0, 1)])
    found.sum().backward()
    assert found.isfinite().all()
    assert z.grad is not None
    assert z.grad.isfinite().all()


def test_views_without_a_pair_are_left_alone() -> None:
    zs = [z.requires_grad_() for z in views(4, 0)]
    spectral(zs, [(0, 2)]).mean().backward()
    assert zs[1].grad is None
    assert zs[0].grad is not None
