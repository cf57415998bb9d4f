from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from dwcl.losses import pseudo_label_loss


def soft(b: int, k: int, seed: int) -> tuple[list[Tensor], list[Tensor]]:
    generator = torch.Generator().manual_seed(seed)
    qs = torch.randn(2, b, k, generator=generator, dtype=torch.float64).softmax(dim=2)
    return list(qs), list(torch.randint(k, (2, b), generator=generator))


def test_values_by_hand() -> None:
    q, y = torch.tensor([[0.7, 0.2, 0.1]], dtype=torch.float64), torch.tensor([0])
    by_hand = math.log(math.exp(0.7) + math.exp(0.2) + math.exp(0.1)) - 0.7
    assert pseudo_label_loss([q], [y]).tolist() == [[pytest.approx(by_hand)]]
    assert by_hand == pytest.approx(0.767950, abs=1e-6)
    proper = pseudo_label_loss([q], [y], as_logits=False)
    assert proper.item() == pytest.approx(0.356675, abs=1e-6)


@pytest.mark.parametrize(("k", "floor"), [(5, 0.904832), (10, 1.461150)])
def test_the_floor_and_the_uniform_case(k: int, floor: float) -> None:
    crisp, y = torch.eye(k), torch.arange(k)
    assert pseudo_label_loss([crisp], [y]).mean().item() == pytest.approx(floor, abs=1e-6)
    assert pseudo_label_loss([crisp], [y], as_logits=False).abs().max().item() == 0
    for as_logits in (True, False):
        uniform = pseudo_label_loss([torch.full((k, k), 1 / k)], [y], as_logits=as_logits)
        assert uniform.tolist() == [pytest.approx([math.log(k)] * k)]


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("b", [1, 6])
def test_it_is_the_definition_by_plain_loops(seed: int, b: int) -> None:
    qs, ys = soft(b, 4, seed)
    gentle = pseudo_label_loss(qs, ys)
    proper = pseudo_label_loss(qs, ys, as_logits=False)
    assert gentle.shape == proper.shape == (2, b)
    for v in range(2):
        for i in range(b):
            row = qs[v][i].tolist()
            hit = row[int(ys[v][i])]
            total = sum(math.exp(value) for value in row)
            assert gentle[v, i].item() == pytest.approx(math.log(total) - hit, rel=1e-12)
            assert proper[v, i].item() == pytest.approx(-math.log(hit), rel=1e-12)


@pytest.mark.parametrize("as_logits", [True, False])
def test_gradients(as_logits: bool) -> None:
    qs, ys = soft(3, 4, 1)
    assert torch.autograd.gradcheck(
        lambda *q: pseudo_label_loss(q, ys, as_logits=as_logits),
        tuple(q.requires_grad_() for q in qs),
    )


def test_a_label_that_is_impossible_stays_finite() -> None:
    q = torch.tensor([[1.0, 0.0]]).requires_grad_()
    loss = pseudo_label_loss([q], [torch.tensor([1])], as_logits=False)
    loss.sum().backward()
    assert loss.item() == pytest.approx(-math.log(1e-12), rel=1e-5)
    assert q.grad is not None
    assert q.grad.isfinite().all()
