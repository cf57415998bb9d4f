"""The plain version of CVCL computes what the engine computes."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from dwcl.bench.methods import Turns, take_turns
from dwcl.bench.plain import get_plain
from dwcl.bench.plain.cvcl import column_contrast, negative_entropy, sharpened

# Weights far from the usual ones, so that no term is lost beside another, and enough units that
# some of them are alive.
TINY: dict[str, Any] = {
    "encoder": (24,), "latent": 12, "classifier": 12, "learning_rate": 1e-2,
    "contrast_weight": 0.7, "entropy_weight": 0.4, "precision": "fp32", "threads": 1,
}  # fmt: skip

Q_V = torch.tensor([[0.9, 0.1], [0.2, 0.8]])
Q_W = torch.tensor([[0.8, 0.2], [0.3, 0.7]])


def agree(turns: Turns) -> None:
    for phase in ("pretrain", "contrast"):
        ours, theirs = zip(*turns.losses[phase], strict=True)
        assert len(ours) == 5
        assert ours == pytest.approx(theirs, rel=1e-4)
        assert ours[0] > ours[-1]


@pytest.mark.parametrize("widths", [(4, 3), (4, 3, 5), (4, 3, 5, 2)])
@pytest.mark.parametrize(("n", "n_clusters"), [(20, 2), (33, 4)])
def test_both_come_to_the_same_losses(n: int, n_clusters: int, widths: tuple[int, ...]) -> None:
    """Of ten samples or more to a cluster columns are compared by cosines, of fewer by products."""
    settings = TINY | {"n_clusters": n_clusters, "batch_size": 64}
    agree(take_turns(get_plain("cvcl"), n, widths, epochs=5, settings=settings))


@pytest.mark.parametrize("similarity", ["dot", "cosine"])
def test_settings_are_those_of_the_model(similarity: str) -> None:
    changes = {"similarity": similarity, "temperature": 0.4, "n_clusters": 3, "batch_size": 64}
    agree(take_turns(get_plain("cvcl"), 31, (4, 3), epochs=5, settings=TINY | changes))


def test_several_batches_in_one_order_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "randperm", lambda n, **how: torch.arange(n))
    settings = TINY | {"n_clusters": 3, "batch_size": 8}
    agree(take_turns(get_plain("cvcl"), 30, (4, 3, 5), epochs=5, settings=settings))


def test_sharpened_assignments_by_hand() -> None:
    expected = torch.tensor([[0.985135, 0.014865], [0.048649, 0.951351]])
    torch.testing.assert_close(sharpened(Q_V), expected, atol=1e-6, rtol=0)
    torch.testing.assert_close(sharpened(torch.full((3, 4), 0.25)), torch.full((3, 4), 0.25))


@pytest.mark.parametrize(
    ("temperature", "cosine", "expected"),
    [(1.0, False, 0.664689), (1.0, True, 0.616252), (0.5, True, 0.310419)],
)
def test_the_contrast_of_clusters_by_hand(
    temperature: float, cosine: bool, expected: float
) -> None:
    found = column_contrast(sharpened(Q_V), sharpened(Q_W), temperature, cosine=cosine)
    assert found.item() == pytest.approx(expected, abs=1e-6)


def test_the_entropies_by_hand() -> None:
    found = negative_entropy(sharpened(Q_V)) + negative_entropy(sharpened(Q_W))
    assert found.item() == pytest.approx(-1.383942, abs=1e-6)
