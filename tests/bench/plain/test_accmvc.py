"""The plain version of ACCMVC computes what the engine computes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional

import dwcl.losses
from dwcl.bench.methods import take_turns
from dwcl.bench.plain import get_plain, in_plain_layers
from dwcl.bench.plain.accmvc import PlainACCMVC, damped_infonce, transitions
from dwcl.clustering.neighbours import neighbour_shares
from dwcl.methods.accmvc import ACCMVC, AnchorNetworks

TINY: dict[str, Any] = {
    "encoder": (12,), "latent": 8, "embedding": 6, "anchors": 5, "neighbours": 4, "n_init": 1,
    "learning_rate": 1e-3, "n_clusters": 2, "precision": "fp32", "threads": 1, "dropout_epochs": 0,
}  # fmt: skip


def unit_rows(b: int, d: int, seed: int) -> torch.Tensor:
    rows = torch.randn(b, d, generator=torch.Generator().manual_seed(seed))
    return functional.normalize(rows, dim=1)


def test_transitions_by_hand() -> None:
    found = transitions(torch.tensor([[0.0], [1.0], [3.0], [6.0]]), 2, 1e-10)
    expected = [[9 / 17, 8 / 17, 0, 0], [3 / 7, 4 / 7, 0, 0], [0, 5 / 14, 9 / 14, 0],
                [0, 0, 16 / 41, 25 / 41]]  # fmt: skip
    torch.testing.assert_close(found, torch.tensor(expected))


def test_the_damped_loss_by_hand() -> None:
    g = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    f = torch.tensor([[1.0, 0.0], [0.6, 0.8]])
    shares = torch.tensor([[0.6, 0.4], [0.25, 0.75]])
    assert float(damped_infonce(g, f, shares, 0.5)) == pytest.approx(0.430216, abs=1e-6)
    assert float(damped_infonce(g, f, shares * 0, 0.5)) == pytest.approx(0.527587, abs=1e-6)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("b", "m"), [(2, 1), (9, 3), (20, 10)])
def test_the_parts_are_the_engine_s(b: int, m: int, seed: int) -> None:
    g, f = (unit_rows(b, 5, 2 * seed + side) for side in range(2))
    shares = transitions(f, m, 1e-10)
    torch.testing.assert_close(shares, neighbour_shares(f, m), rtol=1e-4, atol=1e-6)
    expected = dwcl.losses.damped_infonce([g, f], [(0, 1)], 0.5, shares).mean()
    torch.testing.assert_close(damped_infonce(g, f, shares, 0.5), expected)


@pytest.mark.parametrize(("n", "widths"), [(30, (4,)), (41, (3, 9)), (60, (2, 5, 3)), (3, (4, 2))])
def test_both_come_to_the_same_losses_when_they_take_turns(n: int, widths: tuple[int, ...]) -> None:
    turns = take_turns(get_plain("accmvc"), n, widths, epochs=5, settings=TINY)
    for phase in ("pretrain", "contrast"):
        ours, theirs = zip(*turns.losses[phase], strict=True)
        assert len(ours) == 5
        assert ours == pytest.approx(theirs, rel=1e-5)
        assert ours[0] > ours[-1]


def test_some_of_the_first_epochs_have_dropout() -> None:
    """Told by epochs that learn next to nothing: without it they have the same loss each time."""
    widths = (4, 3)
    views = [torch.rand(20, d, generator=torch.Generator().manual_seed(d)) for d in widths]
    for epochs, active in ((2, [True, True, False, False]), (None, [True] * 4)):
        settings = {"dropout": 0.5, "dropout_epochs": epochs, "learning_rate": 1e-12}
        model = ACCMVC(**{**TINY, **settings})
        generators = [torch.Generator().manual_seed(v) for v in range(len(widths))]
        networks = in_plain_layers(model._build(widths, generators))
        assert isinstance(networks, AnchorNetworks)
        plain = PlainACCMVC(model, networks, views)
        without = plain.loss(views, 0.0).item()
        losses = [plain.epoch() for _ in range(4)]
        assert [loss != pytest.approx(without, rel=1e-6) for loss in losses] == active
