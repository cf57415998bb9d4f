"""The plain version of MFLVC computes what the engine computes."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

import dwcl.methods.finetuning
from dwcl.bench.methods import Turns, take_turns
from dwcl.bench.plain import get_plain
from dwcl.bench.plain.mflvc import label_contrast, named_after, start_labels, unevenness
from dwcl.methods.base import Run

TINY: dict[str, Any] = {
    "encoder": (6,), "latent": 5, "embedding": 3, "n_init": 1, "learning_rate": 1e-2,
    "precision": "fp32", "threads": 1,
}  # fmt: skip


@pytest.fixture(autouse=True)
def same_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the engine the clusters that the plain version has in the place of k-means'."""

    def labels(run: Run, n_init: int) -> dict[str, Tensor]:
        of_view = start_labels(run.source.n_samples, run.n_clusters)
        return {"labels": of_view.repeat(len(run.view_names), 1)}

    monkeypatch.setattr(dwcl.methods.finetuning, "_pseudo_labels", labels)


def turns(n: int, widths: tuple[int, ...], **changes: Any) -> Turns:
    return take_turns(get_plain("mflvc"), n, widths, epochs=5, settings=TINY | changes)


def agree(pairs: list[tuple[float, float]]) -> None:
    ours, theirs = zip(*pairs, strict=True)
    assert len(ours) == 5
    assert ours == pytest.approx(theirs, rel=1e-4)
    assert len(set(ours)) == 5  # something is learnt


@pytest.mark.parametrize("widths", [(4, 3), (4, 3, 5), (4, 3, 5, 2)])
@pytest.mark.parametrize(("n", "n_clusters"), [(20, 2), (33, 4)])
def test_both_come_to_the_same_losses(n: int, n_clusters: int, widths: tuple[int, ...]) -> None:
    losses = turns(n, widths, n_clusters=n_clusters, batch_size=64).losses
    agree(losses["contrast"])
    agree(losses["finetune"])


@pytest.mark.parametrize(("n", "n_clusters"), [(20, 2), (33, 4)])
def test_of_one_view_both_phases_agree_alone(n: int, n_clusters: int) -> None:
    """Without pairs the label head rests in the first one, which engine and Adam count as steps."""
    settings = {"n_clusters": n_clusters, "batch_size": 64}
    agree(turns(n, (4,), **settings, finetune_epochs=0).losses["contrast"])
    agree(turns(n, (4,), **settings, epochs=0).losses["finetune"])


def test_several_batches_in_one_order_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "randperm", lambda n, **how: torch.arange(n))
    losses = turns(30, (4, 3), n_clusters=3, batch_size=8).losses
    agree(losses["contrast"])
    agree(losses["finetune"])


def test_temperatures_are_those_of_the_model() -> None:
    how = {"n_clusters": 3, "batch_size": 64, "temperature": 0.2, "label_temperature": 0.3}
    agree(turns(20, (4, 3), **how).losses["contrast"])


def test_the_contrast_of_labels_by_hand() -> None:
    q_v = torch.tensor([[0.9, 0.1], [0.2, 0.8]])
    q_w = torch.tensor([[0.8, 0.2], [0.3, 0.7]])
    assert unevenness(q_v).item() == pytest.approx(0.005008, abs=1e-6)
    assert label_contrast(q_v, q_w, 1.0).item() == pytest.approx(0.794556, abs=2e-6)
    even = torch.full((6, 10), 0.1)
    assert label_contrast(even, even, 1.0).item() == pytest.approx(math.log(19), abs=1e-5)


def test_clusters_get_the_names_that_most_of_their_samples_have() -> None:
    clusters, labels = torch.tensor([0, 0, 1, 1, 2, 2]), torch.tensor([2, 2, 0, 0, 1, 0])
    assert named_after(labels, clusters, 3).tolist() == [2, 2, 0, 0, 1, 1]
    taken = named_after(torch.tensor([1, 1, 1]), torch.tensor([0, 0, 1]), 3)
    assert taken.tolist()[:2] == [1, 1]
    assert taken[2] in (0, 2)  # a name that nobody has yet
