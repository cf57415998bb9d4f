"""The end that methods with a label head share: pseudo-labels, matched anew in every epoch."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from itertools import permutations
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from dwcl.clustering.pseudo_labels import pseudo_labels
from dwcl.methods import finetuning
from dwcl.methods.base import Run
from dwcl.methods.finetuning import FinetuneLoss, finetune, label_terms, matched, view_labels
from dwcl.nn import LevelNetworks
from dwcl.streams import RandomStreams
from dwcl.training import Batch, InMemory, Trainer
from dwcl.training.memory import MemoryPlan

WIDTHS, NAMES = (6, 4, 5), ("red", "green", "blue")
N, K, RATE = 41, 3, 1e-2


def make_run(batch_size: int = 16, budget: float = 1.0, names: Sequence[str] = NAMES) -> Run:
    streams = RandomStreams(4)
    generators = [streams.torch("networks", name) for name in names]
    networks = LevelNetworks(
        WIDTHS[: len(names)],
        encoder=(8,),
        latent=5,
        decoder=(8,),
        embedding=4,
        n_clusters=K,
        generators=generators,
    )
    draws = torch.Generator().manual_seed(1)
    source = InMemory([torch.rand(N, width, generator=draws) for width in WIDTHS[: len(names)]])
    trainer = Trainer(networks, source, streams, batch_size=batch_size, learning_rate=RATE)
    plan = MemoryPlan.of(N, WIDTHS, budget)
    observed = torch.ones(N, len(names), dtype=torch.bool)
    return Run(networks, source, trainer, streams, tuple(names), K, plan, observed)


def best_names(predicted: Tensor, found: Tensor) -> Tensor:
    """The renaming with the most hits, by trying all of them."""
    best = max(
        permutations(range(K)), key=lambda p: int((torch.tensor(p)[found] == predicted).sum())
    )
    return torch.tensor(best)[found]


def plain_finetuning(run: Run, epochs: int, loss: FinetuneLoss) -> LevelNetworks:
    """Full batches without blocks, checkpoints or caches."""
    networks, xs = copy.deepcopy(run.networks), run.source.views
    adam = torch.optim.Adam(networks.parameters(), lr=RATE)
    with torch.no_grad():
        features = networks.project(networks.encode(xs))
    labels = [
        pseudo_labels(z, K, n_init=3, generator=run.streams.torch("kmeans", "pseudo-labels", name))
        for z, name in zip(features, run.view_names, strict=True)
    ]
    for _ in range(epochs):
        qs = networks.assign(networks.encode(xs))
        total = torch.zeros(())
        for q, found in zip(qs, labels, strict=True):
            y = best_names(q.argmax(dim=1), found)
            if loss == "double-softmax":
                total = total + functional.cross_entropy(q, y)
            else:
                total = total - q[torch.arange(N), y].log().mean()
        adam.zero_grad()
        total.backward()
        adam.step()
    return networks


@pytest.mark.parametrize("batch_size", [7, 16, 100])
@pytest.mark.parametrize("loss", ["double-softmax", "log"])
def test_it_is_a_plain_loop_of_full_batches(loss: FinetuneLoss, batch_size: int) -> None:
    run = make_run(batch_size)
    expected = plain_finetuning(run, 6, loss)
    finetune(run, 6, n_init=3, loss=loss)
    for found, wanted in zip(run.networks.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-4)
    steps = {int(state["step"]) for state in run.trainer._optimisers["main"].state.values()}
    assert steps == {6}


def test_decoders_and_the_feature_head_have_no_part_in_it() -> None:
    run = make_run()
    before = {name: t.clone() for name, t in run.networks.state_dict().items()}
    finetune(run, 4, n_init=3, loss="double-softmax")
    for name, tensor in run.networks.state_dict().items():
        rests = "decoder" in name or name.startswith("feature_head")
        assert torch.equal(tensor, before[name]) == rests, name


def test_features_are_clustered_once_and_clusters_matched_in_every_epoch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[str] = []

    def spy(name: str) -> None:
        original = getattr(finetuning, name)

        def counted(*args: Any, **how: Any) -> Any:
            calls.append(name)
            return original(*args, **how)

        monkeypatch.setattr(finetuning, name, counted)

    for name in ("pseudo_labels", "matched", "label_terms"):
        spy(name)
    finetune(make_run(), 2, n_init=3, loss="log")
    epoch = ["matched"] + ["label_terms"] * 3  # all samples first, then blocks of 16, 16 and 9
    assert calls == ["pseudo_labels"] * 3 + epoch * 2


def test_clusters_are_named_after_the_labels_of_their_own_view(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = torch.tensor([[2, 2, 0, 0, 1, 0], [0, 0, 1, 1, 2, 2]])
    monkeypatch.setattr(finetuning, "view_labels", lambda run: own)
    found = matched(make_run(), torch.tensor([[0, 0, 1, 1, 2, 2], [1, 1, 0, 0, 2, 2]]))
    assert found.tolist() == [[2, 2, 0, 0, 1, 1], [0, 0, 1, 1, 2, 2]]


def test_labels_of_the_views_are_those_of_their_own_assignments() -> None:
    run = make_run()
    found = view_labels(run)
    qs = run.networks.assign(run.networks.encode(run.source.views))
    assert found.shape == (3, N)
    assert torch.equal(found, torch.stack([q.argmax(1) for q in qs]))


def test_the_loss_is_the_sum_over_views_of_means_over_samples() -> None:
    run = make_run()
    rows = torch.tensor([5, 0, 17])
    batch = Batch([x[rows] for x in run.source.views], rows)
    labels = torch.randint(K, (3, N), generator=torch.Generator().manual_seed(0))
    qs = run.networks.assign(run.networks.encode(batch.views))
    for loss in ("double-softmax", "log"):
        terms = label_terms(run.networks, loss, batch, labels)
        by_view = []
        for v, q in enumerate(qs):
            losses = []
            for row, i in zip(q.tolist(), rows.tolist(), strict=True):
                hit = row[labels[v, i]]
                total = math.log(sum(map(math.exp, row)))
                losses.append(total - hit if loss == "double-softmax" else -math.log(hit))
            by_view.append(sum(losses) / 3)
        assert terms.parts["pseudo_label"].tolist() == pytest.approx(by_view, rel=1e-5)
        assert terms.total.item() == pytest.approx(sum(by_view), rel=1e-5)
        tops = [q.argmax(1) for q in qs]
        alike = [(tops[v] == tops[w]).float().mean().item() for v, w in ((0, 1), (0, 2), (1, 2))]
        assert terms.parts["agreement"].tolist() == pytest.approx(alike)


def test_the_agreement_of_the_views_is_on_record() -> None:
    run = make_run()
    found = finetune(run, 3, n_init=3, loss="double-softmax")
    tops = view_labels(run)
    for v in range(3):
        for w in range(3):
            share = (tops[v] == tops[w]).double().mean().item()
            assert found["view_agreement_"][v][w] == pytest.approx(share)
    *epochs, last = run.trainer.history
    assert [record["phase"] for record in epochs] == ["finetune"] * 3
    assert last == {
        "event": "agreement",
        "views": list(NAMES),
        "agreement": found["view_agreement_"],
    }


def test_clusters_of_the_features_are_handed_out_by_view() -> None:
    run = make_run()
    features = run.networks.project(run.networks.encode(run.source.views))
    found = finetune(run, 1, n_init=3, loss="log")["pseudo_labels_"]
    assert list(found) == list(NAMES)
    for name, z in zip(NAMES, features, strict=True):
        stream = run.streams.torch("kmeans", "pseudo-labels", name)
        expected = pseudo_labels(z, K, n_init=3, generator=stream)
        assert found[name].tolist() == expected.tolist()


def test_without_epochs_there_is_nothing_but_the_agreement() -> None:
    run = make_run()
    before = {name: t.clone() for name, t in run.networks.state_dict().items()}
    found = finetune(run, 0, n_init=3, loss="log")
    assert found["pseudo_labels_"] == {}
    assert len(found["view_agreement_"]) == 3
    assert [record["event"] for record in run.trainer.history] == ["agreement"]
    assert all(torch.equal(t, before[name]) for name, t in run.networks.state_dict().items())


def test_a_single_view_agrees_with_itself() -> None:
    run = make_run(names=("red",))
    found = finetune(run, 2, n_init=3, loss="log")
    assert found["view_agreement_"] == [[1.0]]
    assert "agreement" not in run.trainer.history[0]


def test_features_in_files_come_to_the_same() -> None:
    in_memory = make_run()
    in_files = make_run(budget=5e-6)  # room for one view's features, not for those of all
    with in_files.features(
        lambda xs: in_files.networks.project(in_files.networks.encode(xs))
    ) as zs:
        assert not any(isinstance(z, Tensor) for z in zs)
    for run in (in_memory, in_files):
        finetune(run, 2, n_init=3, loss="log")
    pairs = zip(in_memory.networks.parameters(), in_files.networks.parameters(), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)
