"""What samples are given as: noise of a size, zeros of a number."""

from __future__ import annotations

import pytest
import torch

from dwcl.nn import with_noise, with_zeros


def drawn(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(("b", "d", "zeros"), [(256, 20, 1536), (10, 7, 21), (1, 3, 0), (1, 4, 1)])
def test_exactly_so_many_entries_are_zero(b: int, d: int, zeros: int) -> None:
    x = torch.ones(b, d)
    found = with_zeros(x, share=0.3, generator=drawn())
    assert found.shape == (b, d)
    assert int((found == 0).sum()) == zeros
    assert int((found == 1).sum()) == b * d - zeros  # and the others are as they were
    assert (x == 1).all()


def test_zeros_are_anywhere_in_the_batch_not_so_many_in_each_row() -> None:
    counts = torch.stack(
        [
            (with_zeros(torch.ones(50, 10), share=0.3, generator=drawn(seed)) == 0).sum(1)
            for seed in range(40)
        ]
    ).double()
    assert counts.mean() == 3
    # of 500 entries 150 without replacement, ten of them a row's: 10 · 0.3 · 0.7 · 490/499
    assert counts.var().item() == pytest.approx(2.06, rel=0.1)
    everywhere = torch.zeros(5, 4)
    for seed in range(400):
        everywhere += with_zeros(torch.ones(5, 4), share=0.3, generator=drawn(seed)) == 0
    assert ((everywhere - 120).abs() < 45).all()  # five standard deviations


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_no_zeros_or_nothing_else(share: float) -> None:
    x = torch.randn(6, 5, generator=drawn())
    assert torch.equal(with_zeros(x, share=share, generator=drawn(1)), x * (1 - share))


def test_noise_has_its_deviation_and_no_mean() -> None:
    x = torch.full((400, 50), 7.0)
    for deviation in (0.1, 1.0):
        noise = with_noise(x, deviation=deviation, generator=drawn()) - x
        assert noise.std().item() == pytest.approx(deviation, rel=0.02)
        assert noise.mean().item() == pytest.approx(0, abs=0.03 * deviation)
        assert noise.mean(0).std() < 0.1 * deviation  # not the same for all samples of a feature
        assert noise.mean(1).std() < 0.3 * deviation
    assert torch.equal(with_noise(x, deviation=0.0, generator=drawn()), x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_numbers_keep_their_type_and_draws_follow_the_generator(dtype: torch.dtype) -> None:
    x = torch.ones(6, 5, dtype=dtype)
    for change in (
        lambda x, g: with_noise(x, deviation=1.0, generator=g),
        lambda x, g: with_zeros(x, share=0.5, generator=g),
    ):
        one, two, other = change(x, drawn(1)), change(x, drawn(1)), change(x, drawn(2))
        assert one.dtype == dtype
        assert torch.equal(one, two)
        assert not torch.equal(one, other)
