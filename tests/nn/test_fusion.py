from __future__ import annotations

import pytest
import torch
from torch import nn

from dwcl.nn import WeightedMean


def rows(m: int, seed: int = 0) -> list[torch.Tensor]:
    return list(torch.randn(m, 5, 4, generator=torch.Generator().manual_seed(seed)))


def with_logits(*logits: float) -> WeightedMean:
    fusion = WeightedMean(len(logits))
    fusion.logits = nn.Parameter(torch.tensor(logits))
    return fusion


@pytest.mark.parametrize("m", [1, 2, 3, 6])
def test_a_new_one_is_the_mean(m: int) -> None:
    fusion, xs = WeightedMean(m), rows(m)
    assert fusion.logits.tolist() == pytest.approx([1 / m] * m)
    assert fusion.weights().tolist() == pytest.approx([1 / m] * m)
    torch.testing.assert_close(fusion(xs), sum(xs) / m)


def test_weights_by_hand() -> None:
    assert with_logits(0.5, 0.5).weights().tolist() == [0.5, 0.5]
    assert with_logits(1.0, 0.0).weights().tolist() == pytest.approx([0.731059, 0.268941], abs=1e-6)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_it_is_the_weighted_sum(seed: int) -> None:
    fusion, xs = with_logits(0.3, -1.0, 2.0), rows(3, seed)
    expected = sum(w * x for w, x in zip(fusion.weights(), xs, strict=True))
    torch.testing.assert_close(fusion(xs), expected)


def test_a_single_input_passes_whatever_its_logit_which_learns_nothing() -> None:
    fusion, (x,) = with_logits(-7.0), rows(1)
    out = fusion([x])
    assert torch.equal(out, x)
    out.square().sum().backward()
    assert fusion.logits.grad is not None
    assert fusion.logits.grad.tolist() == [0.0]


def test_gradients_reach_logits_and_inputs() -> None:
    fusion = WeightedMean(3).double()
    xs = [x.double().requires_grad_() for x in rows(3)]

    def fused(logits: torch.Tensor, *xs: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(fusion, {"logits": logits}, (xs,))

    logits = torch.tensor([0.1, 0.7, -0.4], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(fused, (logits, *xs))


def test_the_callers_default_type_has_no_influence() -> None:
    torch.set_default_dtype(torch.float64)
    try:
        assert WeightedMean(2).logits.dtype == torch.float32
    finally:
        torch.set_default_dtype(torch.float32)
