"""What the losses of pairs of views have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import pytest
import torch
from torch import Tensor

from dwcl.losses import cluster_contrast, damped_infonce, infonce, rince, spectral

Loss: TypeAlias = Callable[[Sequence[Tensor], Sequence[tuple[int, int]]], Tensor]

LOSSES: dict[str, Loss] = {
    "infonce": lambda zs, pairs: infonce(zs, pairs, 0.5),
    "rince": lambda zs, pairs: rince(zs, pairs, 0.5, exponent=0.5, density=0.001),
    "spectral": lambda zs, pairs: spectral(zs, pairs),
    "damped": lambda zs, pairs: damped_infonce(zs, pairs, 0.5, zs[0] @ zs[0].T),
    "clusters": lambda zs, pairs: cluster_contrast(zs, pairs),
    "own": lambda zs, pairs: cluster_contrast(zs, pairs, similarity="dot", negatives="own"),
}
each_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)


def views(n_views: int, b: int = 4, d: int = 3) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randn(n_views, b, d, generator=generator, dtype=torch.float64)
    return [z.requires_grad_() for z in drawn.softmax(2)]


@each_loss
def test_a_single_view_has_no_pairs_and_sums_to_nothing(loss: Loss) -> None:
    found = loss(views(1), [])
    assert found.shape[0] == 0
    assert found.mean(dim=1).sum().item() == 0.0


@each_loss
def test_pairs_do_not_hear_of_each_other(loss: Loss) -> None:
    zs = views(4)
    pairs = [(0, 1), (2, 3), (3, 0), (1, 1)]
    together = loss(zs, pairs)
    for row, pair in zip(together, pairs, strict=True):
        torch.testing.assert_close(row, loss(zs, [pair])[0])


@each_loss
def test_pairs_may_come_as_any_sequence_and_repeat(loss: Loss) -> None:
    zs = views(3)
    once = loss(zs, [(0, 2)])
    torch.testing.assert_close(loss(tuple(zs), ((0, 2), (0, 2))), once.repeat(2, 1))
    assert loss(zs, [(0, 2)]).dtype == torch.float64


@each_loss
def test_single_precision_comes_near(loss: Loss) -> None:
    zs = views(3)
    short = [z.detach().float() for z in zs]
    pairs = [(0, 1), (1, 2)]
    assert loss(short, pairs).dtype == torch.float32
    torch.testing.assert_close(loss(short, pairs).double(), loss(zs, pairs), rtol=1e-5, atol=1e-5)
