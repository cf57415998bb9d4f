"""What several plain versions share: worked out by hand."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from dwcl.bench.plain._parts import (
    adam,
    in_batches,
    learn,
    partner_contrast,
    shuffled,
    squared_distances,
)

TURNED = [[3**0.5 / 2, 0.5], [-0.5, 3**0.5 / 2]]


@pytest.mark.parametrize(
    ("c", "expected"),
    [([[1, 0], [0, 1]], 0.239545), ([[0, 1], [1, 0]], 2.239545), (TURNED, 0.361123)],
)
def test_two_samples_by_hand(c: list[list[float]], expected: float) -> None:
    """The views agree, have each other's rows, or one of them is turned by 30 degrees."""
    found = partner_contrast(torch.eye(2), torch.tensor(c, dtype=torch.float32), 0.5)
    assert found.item() == pytest.approx(expected, abs=1e-6)


def test_rows_that_are_all_the_same_leave_the_number_of_rows() -> None:
    rows = torch.eye(8)[:1].expand(256, 8)
    assert partner_contrast(rows, rows, 0.5).item() == pytest.approx(math.log(511), abs=1e-5)


def test_networks_have_one_optimiser_and_others_another() -> None:
    one, other = nn.Linear(2, 1), nn.Linear(2, 1)
    assert adam(one, 0.5) is adam(one, 0.5)
    assert adam(one, 0.5) is not adam(other, 0.5)
    assert adam(one, 0.5).param_groups[0]["lr"] == 0.5


@pytest.mark.parametrize(("n", "sizes"), [(8, [4, 4]), (10, [4, 4]), (3, [3]), (11, [4, 4])])
def test_a_short_batch_is_left_out_where_there_are_others(n: int, sizes: list[int]) -> None:
    layer = nn.Linear(1, 1).eval()
    seen: list[Tensor] = []

    def loss(xs: list[Tensor]) -> Tensor:
        assert layer.training
        assert torch.equal(xs[0], -xs[1])
        seen.append(xs[0].flatten())
        return layer(xs[0]).sum() * 0 + len(seen)

    view = torch.arange(1.0, n + 1)[:, None]
    model = SimpleNamespace(batch_size=4, learning_rate=0.1)
    epoch = in_batches(model, layer, [view, -view], loss)
    assert epoch() == (1 + len(sizes)) / 2  # the losses are 1, 2, … and the batches of one size
    epoch()
    assert [len(x) for x in seen] == 2 * sizes
    first, second = torch.cat(seen[: len(sizes)]), torch.cat(seen[len(sizes) :])
    assert len(first.unique()) == sum(sizes)
    assert not torch.equal(first, second)  # shuffled anew


def test_positions_are_dealt_out_anew_each_time() -> None:
    generator = torch.Generator().manual_seed(0)
    assert [len(b) for b in shuffled(10, 4, generator)] == [4, 4, 2]
    assert [len(b) for b in shuffled(10, 4, generator, drop_last=True)] == [4, 4]
    assert [len(b) for b in shuffled(8, 4, generator, drop_last=True)] == [4, 4]
    assert [len(b) for b in shuffled(3, 4, generator, drop_last=True)] == [3]
    once, again = (torch.cat(shuffled(10, 4, generator)) for _ in range(2))
    assert sorted(once.tolist()) == sorted(again.tolist()) == list(range(10))
    assert not torch.equal(once, again)


def test_each_batch_is_a_step_and_all_of_them_are_the_mean() -> None:
    """With Adam's rate of 1, a parameter's first step is 1 against its gradient."""
    value = nn.Parameter(torch.tensor(4.0))
    optimiser = torch.optim.Adam([value], lr=1.0)
    batches = [torch.arange(3), torch.arange(1)]
    seen = []

    def loss(index: torch.Tensor) -> torch.Tensor:
        seen.append(value.item())
        return value * 2

    mean = learn(loss, batches, optimiser)
    assert seen == pytest.approx([4.0, 3.0])
    assert mean == pytest.approx((3 * 8.0 + 1 * 6.0) / 4)
    assert value.item() == pytest.approx(2.0)


@pytest.mark.parametrize("seed", range(3))
def test_distances_are_those_of_the_differences(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    x, y = (torch.randn(n, 3, generator=generator) for n in (5, 4))
    expected = (x[:, None] - y).square().sum(2)
    torch.testing.assert_close(squared_distances(x, y), expected, rtol=1e-4, atol=1e-5)
