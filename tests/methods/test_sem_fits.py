"""Fits of SEM: what it finds, runs that were broken off, shapes at the edge, and its settings."""

from __future__ import annotations

import doctest
import importlib
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from dwcl import Checkpoints, MultiView, load_model, make_multiview, recipe, save_model
from dwcl.errors import SettingError
from dwcl.evaluate.summary import score_views
from dwcl.methods import sem
from dwcl.methods.sem import SEM
from dwcl.training.callbacks import Callback, Record
from dwcl.training.features import FeatureFile
from dwcl.training.loop import Trainer

SEEDS = (0, 1, 2)
LOSSES = ("infonce", "pscl", "rince")
# JSD takes the least time of the measures; what is particular to one is tried with that one.
SHORT: dict[str, Any] = {"pretrain_epochs": 3, "epochs": 2, "batch_size": 16, "measure": "jsd"}


def easy(seed: int, n: int = 60, widths: tuple[int, ...] = (10, 12, 8)) -> MultiView:
    return make_multiview(n, 3, widths=widths, noise=0.1, random_state=seed)


def records(model: SEM, event: str) -> list[dict[str, Any]]:
    return [record for record in model.history_ if record["event"] == event]


def hard(seed: int) -> MultiView:
    shape = {"widths": (20, 20), "quality": 0.8, "noise": 1.5, "nonlinear": 0.3}
    return make_multiview(120, 3, **shape, random_state=seed)


def fitted(small: dict[str, Any], data: MultiView | None = None, **settings: Any) -> SEM:
    chosen = small | SHORT | {"random_state": 0} | settings
    return SEM(3, **chosen).fit(easy(0) if data is None else data)


# -- what it finds ---------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_it_finds_clusters_and_beats_its_own_untrained_networks(
    small: dict[str, Any], seed: int
) -> None:
    data = hard(seed)
    trained = SEM(3, **(small | {"pretrain_epochs": 15}), random_state=seed).fit(data)
    raw = small | {"pretrain_epochs": 0, "iterations": 0}
    untrained = SEM(3, **raw, random_state=seed).fit(data)
    found, before = (
        adjusted_rand_score(data.labels, model.labels_) for model in (trained, untrained)
    )
    assert found > 0.9
    assert found > before + 0.2


@pytest.mark.parametrize(
    "settings",
    [
        {"loss": "pscl"},
        {"loss": "rince", "rince_density": 0.02},
        {"measure": "jsd"},
        {"measure": "mmd"},
        {"reconstruction": "dae"},
        {"reconstruction": "mae"},
    ],
)
def test_its_variants_find_clusters_too(small: dict[str, Any], settings: dict[str, Any]) -> None:
    data = hard(0)
    model = SEM(3, **(small | {"pretrain_epochs": 15} | settings), random_state=0).fit(data)
    assert adjusted_rand_score(data.labels, model.labels_) > 0.85


def test_the_clusters_are_a_k_means_of_unit_rows_joined(small: dict[str, Any]) -> None:
    model = fitted(small)
    for part in np.split(model.embedding_, 3, axis=1):
        np.testing.assert_allclose(np.linalg.norm(part, axis=1), 1.0, atol=1e-6)
    reference = KMeans(3, n_init=10, random_state=0).fit(model.embedding_)
    assert model.inertia_ <= reference.inertia_ * 1.001


def test_each_view_has_a_score_by_its_part_of_the_features(small: dict[str, Any]) -> None:
    data = easy(0)
    model = fitted(small, data)
    assert model.feature_widths_ == (8, 8, 8)
    scores = score_views(model, data, data.labels)
    assert set(scores["views"]) == set(data.names)
    assert list(model.get_feature_names_out()[[0, 7, 8]]) == ["view1_0", "view1_7", "view2_0"]


def test_labels_given_to_fit_change_nothing(small: dict[str, Any]) -> None:
    data = easy(0)
    one, two = SEM(3, **small, random_state=0), SEM(3, **small, random_state=0)
    one.fit(data, data.labels)
    two.fit(data.with_labels(None))
    assert one.embedding_.tobytes() == two.embedding_.tobytes()


@pytest.mark.parametrize("kind", ["ae", "dae", "mae"])
def test_the_same_seed_gives_the_same_bytes_and_another_does_not(
    small: dict[str, Any], kind: str
) -> None:
    one, two, other = (
        fitted(small, reconstruction=kind, random_state=seed) for seed in (3, np.int64(3), 4)
    )
    assert one.embedding_.tobytes() == two.embedding_.tobytes()
    assert one.labels_.tobytes() == two.labels_.tobytes()
    assert one.embedding_.tobytes() != other.embedding_.tobytes()


@pytest.mark.parametrize("kind", ["ae", "mae"])
def test_the_order_of_named_views_changes_the_result_by_rounding_only(
    small: dict[str, Any], kind: str
) -> None:
    data = easy(2)
    turned = data.select(tuple(reversed(data.names)))
    one, two = (fitted(small, given, reconstruction=kind) for given in (data, turned))
    parts = dict(zip(two.view_names_, np.split(two.embedding_, 3, axis=1), strict=True))
    for name, part in zip(one.view_names_, np.split(one.embedding_, 3, axis=1), strict=True):
        np.testing.assert_allclose(part, parts[name], atol=0.02)


def test_predict_transform_and_new_samples(small: dict[str, Any]) -> None:
    data = easy(0, n=90)
    model = fitted(small, data.take(range(60)))
    known, new = data.take(range(60)), data.take(range(60, 90))
    assert_array_equal(model.predict(known), model.labels_)
    assert_array_equal(model.transform(known), model.embedding_)
    order = np.random.default_rng(0).permutation(30)
    assert_array_equal(model.transform(new.take(order)), model.transform(new)[order])
    assert_array_equal(model.predict(new.take(order)), model.predict(new)[order])
    assert_array_equal(model.centre_distances(new).argmin(axis=1), model.predict(new))


def test_a_saved_model_predicts_and_weighs_as_before(small: dict[str, Any], tmp_path: Path) -> None:
    data = easy(0)
    model = fitted(small, data, measure="mmd")
    loaded = load_model(save_model(model, tmp_path / "model"))
    assert isinstance(loaded, SEM)
    assert loaded.get_params() == model.get_params() | {"random_state": loaded.random_state}
    assert_array_equal(loaded.predict(data), model.labels_)
    assert_array_equal(loaded.transform(data), model.embedding_)
    assert loaded.pair_weights_ == model.pair_weights_


def test_bf16_is_close_to_fp32(small: dict[str, Any]) -> None:
    single, rounded = (fitted(small, precision=chosen) for chosen in ("fp32", "bf16"))
    assert not np.array_equal(single.embedding_, rounded.embedding_)
    for one, other in zip(records(single, "epoch"), records(rounded, "epoch"), strict=True):
        assert other["loss"] == pytest.approx(one["loss"], rel=0.02)
    assert {t.dtype for t in rounded.networks_.state_dict().values()} == {torch.float32}


@pytest.mark.parametrize("measure", ["cmi", "jsd", "mmd"])
def test_features_larger_than_memory_are_weighed_too(
    small: dict[str, Any], monkeypatch: pytest.MonkeyPatch, measure: str
) -> None:
    kinds = set()
    original = sem.SEM._measured

    def spy(self: SEM, run: Any, features: Any, iteration: int) -> Any:
        kinds.update(type(table) for table in features)
        return original(self, run, features, iteration)

    monkeypatch.setattr(sem.SEM, "_measured", spy)
    model = fitted(small, measure=measure, memory_budget=8e-6)
    assert kinds == {FeatureFile}
    assert all(math.isfinite(pair["weight"]) for pair in model.pair_weights_)


# -- a run that was broken off ---------------------------------------------------------------------


class BrokenError(Exception):
    """Stands for a crash."""


class BreakAt(Callback):
    def __init__(self, number: int) -> None:
        self.left = number

    def on_record(self, record: Record) -> None:
        self.left -= 1
        if self.left == 0:
            raise BrokenError


def without_times(history: list[Record]) -> list[Record]:
    return [{k: v for k, v in record.items() if k != "seconds"} for record in history]


@pytest.mark.parametrize("record", [4, 5, 7, 10])
def test_broken_at_a_record_it_ends_in_the_same_bytes(
    small: dict[str, Any], tmp_path: Path, record: int
) -> None:
    """Three epochs, weights, two epochs, weights, two epochs, weights: ten records."""
    data = easy(0)
    settings = small | SHORT | {"random_state": 0, "measure": "cmi"}
    whole = SEM(3, **settings).fit(data)
    model = SEM(3, **settings)
    with pytest.raises(BrokenError):
        model.fit(data, callbacks=[BreakAt(record)], checkpoint=Checkpoints(tmp_path, every=0))
    model.fit(data, checkpoint=tmp_path)
    assert model.embedding_.tobytes() == whole.embedding_.tobytes()
    assert model.labels_.tobytes() == whole.labels_.tobytes()
    assert without_times(model.history_) == without_times(whole.history_)
    assert model.pair_weights_ == whole.pair_weights_


@pytest.mark.parametrize(("step", "kind"), [(3, "mae"), (14, "dae"), (23, "mae")])
def test_broken_between_two_steps_it_ends_in_the_same_bytes(
    small: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int, kind: str
) -> None:
    """Four batches an epoch, seven epochs: corruption goes by the step, not by what was drawn."""
    data = easy(0)
    settings = small | SHORT | {"random_state": 0, "reconstruction": kind}
    whole = SEM(3, **settings).fit(data)
    model = SEM(3, **settings)
    steps, original = [0], Trainer._step

    def counted(self: Trainer, *args: Any, **how: Any) -> None:
        steps[0] += 1
        if steps[0] == step:
            raise BrokenError
        original(self, *args, **how)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_step", counted)
        with pytest.raises(BrokenError):
            model.fit(data, checkpoint=Checkpoints(tmp_path, every=0))
    model.fit(data, checkpoint=tmp_path)
    assert model.embedding_.tobytes() == whole.embedding_.tobytes()
    assert without_times(model.history_) == without_times(whole.history_)


# -- shapes at the edge ----------------------------------------------------------------------------


@pytest.mark.parametrize("n_views", [1, 2, 5])
@pytest.mark.parametrize("loss", LOSSES)
def test_any_number_of_views(small: dict[str, Any], n_views: int, loss: str) -> None:
    model = fitted(small, easy(0, widths=(6,) * n_views), loss=loss, iterations=1)
    assert model.embedding_.shape == (60, 8 * n_views)
    assert np.isfinite(model.embedding_).all()
    assert sum(pair["terms"] for pair in model.pair_weights_) == n_views**2
    assert len(np.unique(model.labels_)) == 3


@pytest.mark.parametrize(("n", "batch"), [(10, 128), (33, 32), (6, 1)])
@pytest.mark.parametrize(
    "settings", [{}, {"loss": "pscl"}, {"loss": "rince", "reconstruction": "mae"}]
)
def test_any_size_of_batch(
    small: dict[str, Any], n: int, batch: int, settings: dict[str, Any]
) -> None:
    model = fitted(small, easy(0, n=n), batch_size=batch, **settings)
    assert np.isfinite(model.embedding_).all()
    assert all(math.isfinite(record["loss"]) for record in records(model, "epoch"))


def test_a_constant_column_and_integer_views_are_no_obstacle(small: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 9, (40, 5))
    counts[:, 2] = 3
    reals = rng.normal(size=(40, 3))
    model = fitted(small, {"counts": counts, "real": reals})  # type: ignore[arg-type]
    assert np.isfinite(model.embedding_).all()
    single = fitted(small, {"counts": counts, "real": reals.astype(np.float32)})  # type: ignore[arg-type]
    np.testing.assert_allclose(model.embedding_, single.embedding_, atol=1e-3)


def test_one_cluster_and_as_many_as_samples(small: dict[str, Any]) -> None:
    data = easy(0, n=6)
    for k in (1, 6):
        model = SEM(k, **(small | SHORT), random_state=0).fit(data)
        assert len(np.unique(model.labels_)) == k


# -- settings --------------------------------------------------------------------------------------

CHANGES: dict[str, Any] = {
    "loss": "pscl",
    "measure": "mmd",
    "reconstruction": "dae",
    "reconstruction_weight": 0.1,
    "temperature": 0.4,
    "rince_exponent": 0.2,
    "rince_density": 0.1,
    "noise": 0.1,
    "masked": 0.9,
    "label_factor": 2.0,
    "encoder": (20,),
    "decoder": (5, 6),
    "latent": 12,
    "embedding": 6,
    "pretrain_epochs": 4,
    "iterations": 1,
    "epochs": 1,
    "batch_size": 64,
    "learning_rate": 1e-3,
    "optimiser_reset": "never",
    "scaling": "standard",
    "precision": "bf16",
    "random_state": 1,
}
NEEDS: dict[str, dict[str, Any]] = {
    "rince_exponent": {"loss": "rince"},
    "rince_density": {"loss": "rince"},
    "noise": {"reconstruction": "dae"},
    "masked": {"reconstruction": "mae"},
    "label_factor": {"measure": "cmi"},
}
OTHERS = {"n_clusters", "n_init", "memory_budget", "device", "threads"}


def test_every_setting_is_looked_at() -> None:
    assert set(CHANGES) | OTHERS == set(SEM().get_params())


@pytest.mark.parametrize("name", CHANGES)
def test_every_setting_has_an_effect(small: dict[str, Any], name: str) -> None:
    needed = NEEDS.get(name, {})
    one, two = (fitted(small, **(needed | more)) for more in ({}, {name: CHANGES[name]}))
    assert one.embedding_.shape != two.embedding_.shape or not np.allclose(
        one.embedding_, two.embedding_, atol=1e-5
    )


@pytest.mark.parametrize(
    "settings",
    [
        {"loss": "nce"},
        {"measure": "mse"},
        {"reconstruction": "vae"},
        {"temperature": 0.0},
        {"rince_exponent": 1.5},
        {"masked": 1.1},
        {"label_factor": 0.0},
        {"noise": -1.0},
    ],
)
def test_bad_values_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(SettingError, match=next(iter(settings))):
        SEM(3, **settings).fit(easy(0))


def test_the_defaults_are_the_reference_s() -> None:
    model = SEM()
    expected = {
        "loss": "infonce", "measure": "cmi", "reconstruction": "ae", "reconstruction_weight": 1.0,
        "rince_exponent": 0.5, "rince_density": 0.001, "noise": 1.0, "masked": 0.3,
        "label_factor": 1.0, "encoder": (500, 500, 2000), "latent": 512, "embedding": 128,
        "pretrain_epochs": 100, "iterations": 4, "epochs": 100, "batch_size": 256,
        "learning_rate": 3e-4, "optimiser_reset": "epoch",
    }  # fmt: skip
    assert {name: getattr(model, name) for name in expected} == expected
    with torch.device("meta"):
        made = model._build((20, 59), [torch.Generator() for _ in range(2)])
    assert sum(p.numel() for p in made.parameters()) == 1001 * (20 + 59) + 2 * 4_620_176
    assert clone(model).get_params() == model.get_params()


def test_recipes_have_the_reference_s_numbers_of_epochs() -> None:
    epochs = {"caltech6v7": 300, "ccv": 200, "dha": 300, "nuswide": 100, "youtubevideo": 25}
    for name, total in epochs.items():
        model = SEM(**recipe(name, "sem").settings)
        assert model._total_epochs() == 100 + total


def test_the_example_of_the_docstring_gives_what_it_says() -> None:
    found = doctest.testmod(importlib.import_module("dwcl.methods.sem"))
    assert found.attempted == 5
    assert found.failed == 0
