"""The plain version of DealMVC computes what the engine computes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import dwcl.methods.finetuning
from dwcl.bench.methods import Turns, take_turns
from dwcl.bench.plain import get_plain
from dwcl.bench.plain.dealmvc import calibration, label_graph
from dwcl.bench.plain.mflvc import start_labels
from dwcl.methods.base import Run

TINY: dict[str, Any] = {
    "encoder": (6,), "latent": 5, "n_init": 1, "learning_rate": 1e-2,
    "precision": "fp32", "threads": 1,
}  # fmt: skip


@pytest.fixture(autouse=True)
def same_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the engine the clusters that the plain version has in the place of k-means'."""

    def labels(run: Run, n_init: int) -> dict[str, Tensor]:
        of_view = start_labels(run.source.n_samples, run.n_clusters)
        return {"labels": of_view.repeat(len(run.view_names), 1)}

    monkeypatch.setattr(dwcl.methods.finetuning, "_pseudo_labels", labels)


def agree(turns: Turns) -> None:
    for phase in ("calibrate", "finetune"):
        ours, theirs = zip(*turns.losses[phase], strict=True)
        assert len(ours) == 5
        assert ours == pytest.approx(theirs, rel=1e-4)
        assert len(set(ours)) == 5  # something is learnt


@pytest.mark.parametrize("widths", [(4,), (4, 3), (4, 3, 5), (4, 3, 5, 2)])
@pytest.mark.parametrize(
    ("n", "n_clusters", "threshold"), [(20, 2, 0.8), (20, 2, 0.0), (33, 4, 0.2)]
)
def test_both_come_to_the_same_losses(
    n: int, n_clusters: int, threshold: float, widths: tuple[int, ...]
) -> None:
    """At the usual threshold no two samples are connected yet, at the others all or some are."""
    settings = TINY | {"n_clusters": n_clusters, "threshold": threshold, "batch_size": 64}
    agree(take_turns(get_plain("dealmvc"), n, widths, epochs=5, settings=settings))


def test_the_same_pairs_are_held_against_the_whole() -> None:
    """Of few samples, as far as they have learnt here, graphs differ; of six pairs four count."""
    settings = TINY | {"n_clusters": 2, "threshold": 0.5, "learning_rate": 5e-2, "batch_size": 64}
    plain, widths = get_plain("dealmvc"), (4, 3, 5, 2)
    agree(take_turns(plain, 6, widths, epochs=5, settings=settings))
    changed = settings | {"consistency_pairs": "all"}
    ours, theirs = take_turns(plain, 6, widths, epochs=5, settings=changed).losses["calibrate"][-1]
    assert ours != pytest.approx(theirs, rel=1e-3)


@pytest.mark.parametrize("widths", [(4, 3), (4, 3, 5)])
def test_weights_fade_in_each_epoch_alike(
    widths: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several batches, in one order; the last one is short, and left out."""
    monkeypatch.setattr(torch, "randperm", lambda n, **how: torch.arange(n))
    settings = TINY | {"n_clusters": 3, "threshold": 0.3, "batch_size": 8}
    agree(take_turns(get_plain("dealmvc"), 30, widths, epochs=5, settings=settings))


def test_a_graph_and_a_calibration_by_hand() -> None:
    q_v = torch.tensor([[0.95, 0.05], [0.2, 0.8]])
    q_w = torch.tensor([[0.9, 0.1], [0.92, 0.08]])
    expected = torch.tensor([[0.532481, 0.467519], [0.0, 1.0]])
    torch.testing.assert_close(label_graph(q_v, q_w, 0.8), expected, atol=1e-6, rtol=0)
    z = torch.eye(2)
    assert calibration(z, z, torch.eye(2)).item() == pytest.approx(0.313261, abs=1e-6)
    q = torch.tensor([[0.95, 0.05], [0.9, 0.1]])
    assert calibration(z, z, label_graph(q, q, 0.8)).item() == pytest.approx(0.775627, abs=1e-6)


def test_the_diagonal_of_a_graph_is_no_way_to_the_assignments() -> None:
    q = torch.tensor([[0.95, 0.05], [0.1, 0.9]], requires_grad=True)
    graph = label_graph(q, q, 0.8)
    assert torch.equal(graph, torch.eye(2))
    graph.square().sum().backward()
    assert q.grad is not None
    assert not q.grad.any()
