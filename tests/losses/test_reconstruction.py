from __future__ import annotations

import pytest
import torch

from dwcl.losses import reconstruction


def test_the_mean_is_over_the_entries_of_each_view() -> None:
    xs = [torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[0.0], [0.0]])]
    decoded = [torch.tensor([[1.0, 0.0], [3.0, 3.0]]), torch.tensor([[3.0], [-1.0]])]
    found = reconstruction(xs, decoded)
    assert found.tolist() == [(4 + 1) / 4, (9 + 1) / 2]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_it_is_the_sum_of_squares_by_plain_loops(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    xs = [torch.randn(5, d, generator=generator, dtype=torch.float64) for d in (1, 3, 8)]
    decoded = [torch.randn(x.shape, generator=generator, dtype=torch.float64) for x in xs]
    expected = [
        sum((float(x[i, j]) - float(y[i, j])) ** 2 for i in range(5) for j in range(x.shape[1]))
        / x.numel()
        for x, y in zip(xs, decoded, strict=True)
    ]
    assert reconstruction(xs, decoded).tolist() == pytest.approx(expected, rel=1e-12)


def test_gradients_go_to_the_decoded_side_by_the_known_formula() -> None:
    x = torch.tensor([[1.0, 2.0]])
    decoded = torch.tensor([[2.0, 5.0]], requires_grad=True)
    reconstruction([x], [decoded]).sum().backward()
    assert decoded.grad is not None
    assert decoded.grad.tolist() == [[2 * 1 / 2, 2 * 3 / 2]]


def test_perfect_views_lose_nothing() -> None:
    x = torch.rand(4, 3, generator=torch.Generator().manual_seed(0))
    assert reconstruction([x, x], [x, x.clone()]).tolist() == [0.0, 0.0]


def test_views_must_be_as_many_as_their_reconstructions() -> None:
    with pytest.raises(ValueError, match="zip"):
        reconstruction([torch.zeros(2, 2)], [])
