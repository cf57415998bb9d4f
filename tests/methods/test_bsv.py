"""k-means on the best view's code: the same networks, clusters and choice as inside DWCL."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from sklearn.metrics import adjusted_rand_score

from dwcl import DWCL, MultiView, load_model, make_multiview, save_model
from dwcl.data.synthetic import best_view
from dwcl.methods.bsv import BSV

SEEDS = (0, 1, 2)
NET: dict[str, Any] = {
    "encoder": (16, 12),
    "latent": 8,
    "pretrain_epochs": 6,
    "batch_size": 32,
    "learning_rate": 3e-3,
    "n_init": 3,
    "threads": 1,
    "precision": "fp32",
}
LONG: dict[str, Any] = {"encoder": (32, 32), "latent": 16, "pretrain_epochs": 40}
CLEAR: dict[str, Any] = {"widths": (10, 12, 8), "quality": (0.5, 1, 0.5), "noise": (0.2, 0.05, 0.3)}


def views(seed: int, n: int = 97) -> MultiView:
    """The best view is the second one; 97 samples leave a last batch of one."""
    how: dict[str, Any] = {"widths": (6, 8, 7), "quality": (0.4, 0.9, 0.5), "noise": 0.3}
    return make_multiview(n, 3, **how, random_state=seed)


def inside_dwcl(data: MultiView, **settings: Any) -> DWCL:
    rest = {"embedding": 4, "iterations": 1, "epochs": 1}
    return DWCL(3, **rest, **(NET | settings)).fit(data)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    "change",
    [
        {},
        {"precision": "bf16"},
        {"decoder": (10,), "scaling": "standard"},
        {"memory_budget": 2e-5},
        {"pretrain_epochs": 0},
    ],
    ids=["plain", "bf16", "others", "streamed", "untrained"],
)
def test_its_clusters_are_the_yardstick_inside_dwcl(seed: int, change: dict[str, Any]) -> None:
    data = views(seed)
    settings = change | {"random_state": seed}
    reference = inside_dwcl(data, **settings)
    model = BSV(3, **(NET | settings)).fit(data)
    assert_array_equal(model.labels_, reference.baseline_labels_["bsv"])
    first = reference.assessments_[0]
    assert model.best_view_ == first.best_name
    assert tuple(model.view_quality_.values()) == first.quality
    (own,) = model.assessments_
    assert_array_equal(own.labels.numpy(), first.labels.numpy())


def test_the_start_values_are_those_of_dwcl() -> None:
    """Before anything is learnt, and after it where contrast has not begun."""
    for epochs in (0, 3):
        short = {"pretrain_epochs": epochs, "random_state": 0}
        alone = BSV(3, **(NET | short)).fit(views(0)).networks_.state_dict()
        inside = DWCL(3, iterations=0, embedding=4, **(NET | short)).fit(views(0))
        of_dwcl = inside.networks_.state_dict()
        shared = [name for name in alone if name != "best"]
        assert set(of_dwcl) - set(shared) == {n for n in of_dwcl if n.startswith("heads.")}
        assert all(alone[name].equal(of_dwcl[name]) for name in shared)


def test_its_defaults_are_those_of_dwcl() -> None:
    of_dwcl = inspect.signature(DWCL).parameters
    own = inspect.signature(BSV).parameters
    assert {n: p.default for n, p in own.items()} == {n: of_dwcl[n].default for n in own}


@pytest.mark.parametrize("seed", SEEDS)
def test_it_finds_clear_clusters_in_the_best_view(seed: int) -> None:
    data = make_multiview(120, 3, **CLEAR, random_state=seed)
    model = BSV(3, **(NET | LONG), random_state=seed).fit(data)
    assert model.best_view_ == best_view(3, **CLEAR) == "view2"
    assert adjusted_rand_score(data.labels, model.labels_) > 0.9


@pytest.mark.parametrize("seed", SEEDS)
def test_it_beats_its_own_untrained_networks(seed: int) -> None:
    data = make_multiview(120, 4, widths=(20, 20), noise=0.8, nonlinear=0.5, random_state=seed)
    trained, raw = (
        BSV(4, **(NET | LONG | {"pretrain_epochs": epochs}), random_state=seed).fit_predict(data)
        for epochs in (60, 0)
    )
    assert adjusted_rand_score(data.labels, trained) > adjusted_rand_score(data.labels, raw)


def test_the_embedding_is_the_best_view_s_code() -> None:
    data = views(0)
    model = BSV(3, **NET, random_state=0).fit(data)
    assert model.feature_widths_ == (8,)
    assert list(model.get_feature_names_out()) == [f"{model.best_view_}_{i}" for i in range(8)]
    best = model.view_names_.index(model.best_view_)
    xs = [torch.from_numpy(x) for x in model.scaling_.transform(data)]
    with torch.no_grad():
        code = model.networks_.eval().encode(xs)[best]
    np.testing.assert_allclose(model.embedding_, code.numpy(), atol=1e-6)
    for cluster in range(3):
        mean = model.embedding_[model.labels_ == cluster].mean(axis=0)
        np.testing.assert_allclose(model.cluster_centers_[cluster], mean, atol=1e-6)


def test_the_choice_is_kept_on_disk(tmp_path: Path) -> None:
    model = BSV(3, **NET, random_state=1).fit(views(1))
    assert model.best_view_ == "view2"
    loaded = load_model(save_model(model, tmp_path))
    assert int(loaded.networks_.state_dict()["best"]) == 1
    assert_array_equal(loaded.predict(views(2)), model.predict(views(2)))
    assert loaded.view_quality_ == model.view_quality_


def test_the_history_has_every_epoch_and_the_assessment() -> None:
    model = BSV(3, **NET, silhouette_budget=50, random_state=0).fit(views(0))
    assert [r.get("phase") for r in model.history_] == ["pretrain"] * 6 + [None]
    assert all(len(r["reconstruction"]) == 3 for r in model.history_[:-1])
    assert all(r["loss"] == pytest.approx(sum(r["reconstruction"])) for r in model.history_[:-1])
    last = model.history_[-1]
    assert (last["event"], last["iteration"]) == ("assessment", 0)
    assert last["quality"] == list(model.view_quality_.values())
    assert last["silhouette_samples"] == 50
