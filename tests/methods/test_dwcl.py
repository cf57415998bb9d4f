"""The method of the paper: what it learns, what it reports, and what its settings change."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score
from torch import Tensor

from dwcl import DWCL, MultiView, make_multiview
from dwcl.data.synthetic import best_view
from dwcl.errors import DataError, SettingError
from dwcl.methods.dwcl import reconstruct
from dwcl.nn import ViewNetworks
from dwcl.streams import RandomStreams
from dwcl.training.batches import Batch

SEEDS = (0, 1, 2)
EASY = {"widths": (10, 12, 8), "quality": (1.0, 0.5, 0.3), "noise": (0.05, 0.2, 0.3)}


def easy(seed: int, n: int = 150, k: int = 3) -> MultiView:
    return make_multiview(n, k, **EASY, random_state=seed)


def records(model: DWCL, event: str) -> list[dict[str, Any]]:
    return [record for record in model.history_ if record["event"] == event]


@pytest.mark.parametrize("seed", SEEDS)
def test_it_finds_clear_clusters_and_the_best_view(small: dict[str, Any], seed: int) -> None:
    data = easy(seed)
    model = DWCL(3, **(small | {"pretrain_epochs": 20}), random_state=seed).fit(data)
    assert adjusted_rand_score(data.labels, model.labels_) > 0.9
    assert model.assessments_[0].best_name == best_view(3, **EASY)


@pytest.mark.parametrize("seed", SEEDS)
def test_it_beats_its_own_untrained_networks(small: dict[str, Any], seed: int) -> None:
    data = make_multiview(150, 4, widths=(20, 20), noise=0.8, nonlinear=0.5, random_state=seed)
    trained = DWCL(4, **small, random_state=seed).fit(data)
    raw = small | {"pretrain_epochs": 0, "iterations": 0}
    untrained = DWCL(4, **raw, random_state=seed).fit(data)
    score_of = {
        name: adjusted_rand_score(data.labels, model.labels_)
        for name, model in (("trained", trained), ("untrained", untrained))
    }
    assert score_of["trained"] > score_of["untrained"]


def test_labels_given_to_fit_change_nothing(small: dict[str, Any]) -> None:
    data = easy(0)
    with_labels = DWCL(3, **small, random_state=0).fit(data, data.labels)
    without = DWCL(3, **small, random_state=0).fit(data.with_labels(None))
    assert_array_equal(with_labels.embedding_, without.embedding_)
    assert_array_equal(with_labels.labels_, without.labels_)


@pytest.mark.parametrize("seed", [3, np.int64(3), np.uint8(200)])
def test_the_same_seed_gives_the_same_bytes_and_another_does_not(
    small: dict[str, Any], seed: Any
) -> None:
    data = easy(1)
    one, two = (DWCL(3, **small, random_state=seed).fit(data) for _ in range(2))
    other = DWCL(3, **small, random_state=4).fit(data)
    assert one.embedding_.tobytes() == two.embedding_.tobytes()
    assert one.labels_.tobytes() == two.labels_.tobytes()
    assert one.embedding_.tobytes() != other.embedding_.tobytes()


def test_random_states_of_the_caller_are_left_alone(small: dict[str, Any]) -> None:
    np_before = np.random.get_state()[1].copy()  # noqa: NPY002 - the global state is the subject
    torch_before = torch.get_rng_state()
    DWCL(3, **small).fit(easy(0))
    assert_array_equal(np.random.get_state()[1], np_before)  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), torch_before)


def test_a_generator_as_random_state_is_advanced(small: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    model = DWCL(3, **small, random_state=rng)
    first = model.fit(easy(0)).embedding_
    assert not np.array_equal(first, model.fit(easy(0)).embedding_)


@pytest.mark.parametrize("mechanism", ["best-other", "pairwise"])
def test_the_order_of_named_views_changes_the_result_by_rounding_only(
    small: dict[str, Any], mechanism: str
) -> None:
    data = easy(2)
    turned = data.select(tuple(reversed(data.names)))
    kwargs = {**small, "mechanism": mechanism, "random_state": 5}
    one, two = DWCL(3, **kwargs).fit(data), DWCL(3, **kwargs).fit(turned)
    assert one.best_view_ == two.best_view_
    assert adjusted_rand_score(one.labels_, two.labels_) == 1.0
    for name in data.names:
        assert one.view_quality_[name] == pytest.approx(two.view_quality_[name], abs=1e-2)


def test_predict_transform_and_fit_agree_on_the_training_data(small: dict[str, Any]) -> None:
    data = easy(0)
    model = DWCL(3, **small, random_state=0)
    labels = model.fit_predict(data)
    assert_array_equal(model.predict(data), labels)
    assert_array_equal(model.transform(data), model.embedding_)
    assert_array_equal(model.centre_distances(data).argmin(axis=1), labels)
    assert list(model.get_feature_names_out()[[0, 7, 8]]) == ["view1_0", "view1_7", "view2_0"]


def test_a_sample_is_embedded_alike_alone_and_among_others(small: dict[str, Any]) -> None:
    data = easy(0)
    model = DWCL(3, **small, random_state=0).fit(data)
    alone = np.vstack([model.transform(data.take([i])) for i in range(0, 150, 17)])
    assert_array_equal(alone, model.embedding_[::17])


def test_new_samples_go_to_the_clusters_of_their_kind(small: dict[str, Any]) -> None:
    data = easy(0, n=300)
    model = DWCL(3, **small, random_state=0).fit(data.take(range(200)))
    new = data.take(range(200, 300))
    assert adjusted_rand_score(new.labels, model.predict(new)) > 0.9


def test_the_embedding_is_made_of_unit_rows_per_view(small: dict[str, Any]) -> None:
    model = DWCL(3, **small, random_state=0).fit(easy(0))
    for part in np.split(model.embedding_, 3, axis=1):
        np.testing.assert_allclose(np.linalg.norm(part, axis=1), 1.0, atol=1e-6)


def test_the_final_labels_are_a_k_means_of_the_embedding(small: dict[str, Any]) -> None:
    model = DWCL(3, **small, random_state=0).fit(easy(0))
    reference = KMeans(3, n_init=10, random_state=0).fit(model.embedding_)
    assert model.inertia_ <= reference.inertia_ * 1.001
    assert adjusted_rand_score(reference.labels_, model.labels_) == 1.0


# -- history ---------------------------------------------------------------------------------------


def test_the_history_has_every_epoch_and_every_assessment(small: dict[str, Any]) -> None:
    model = DWCL(3, **small, random_state=0).fit(easy(0))
    phases = [record["phase"] for record in records(model, "epoch")]
    assert phases == ["pretrain"] * 8 + ["contrast-1"] * 6 + ["contrast-2"] * 6
    assert [r["iteration"] for r in records(model, "assessment")] == [0, 1, 2]
    first = records(model, "assessment")[0]
    assert first["silhouette_samples"] == 150
    assert len(first["quality"]) == 3
    assert np.asarray(first["cmi"]).shape == (3, 3)
    best = first["quality"].index(max(first["quality"]))
    assert first["best_view"] == model.view_names_[best]


def test_weights_follow_from_quality_and_agreement_on_record(small: dict[str, Any]) -> None:
    """W = e^(SI_v + SI_B) · (e^CMI − 1), and within the bounds of the paper's first theorem."""
    model = DWCL(3, **small, random_state=1).fit(easy(1))
    for record in records(model, "assessment"):
        names = model.view_names_
        best = names.index(record["best_view"])
        assert len(record["pairs"]) == 3
        for v, pair in enumerate(record["pairs"]):
            assert pair["views"] == [names[v], names[best]]
            quality = math.exp(record["quality"][v] + record["quality"][best])
            agreement = math.exp(record["cmi"][v][best]) - 1
            assert pair["weight"] == pytest.approx(quality * agreement)
            assert 1 < quality < math.e**2
            assert 0 <= agreement <= math.e - 1 + 1e-12


def test_the_loss_on_record_is_the_weighted_sum_of_its_parts(small: dict[str, Any]) -> None:
    model = DWCL(3, **small, random_state=0, contrast_weight=0.5, reconstruction_weight=2.0).fit(
        easy(0)
    )
    pairs = records(model, "assessment")[0]["pairs"]
    for record in records(model, "epoch"):
        if record["phase"] != "contrast-1":
            continue
        contrast = sum(p["weight"] * c for p, c in zip(pairs, record["contrast"], strict=True))
        expected = 0.5 * contrast + 2.0 * sum(record["reconstruction"])
        assert record["loss"] == pytest.approx(expected, rel=1e-5)


def test_the_silhouette_is_sampled_above_its_budget_and_that_is_said(
    small: dict[str, Any],
) -> None:
    model = DWCL(3, **small, silhouette_budget=40, random_state=0).fit(easy(0))
    exact = DWCL(3, **small, random_state=0).fit(easy(0))
    assert {r["silhouette_samples"] for r in records(model, "assessment")} == {40}
    sampled = records(model, "assessment")[0]["quality"]
    assert sampled != records(exact, "assessment")[0]["quality"]
    assert sampled == pytest.approx(records(exact, "assessment")[0]["quality"], abs=0.15)


# -- settings --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "n_pairs", "n_terms"),
    [
        ({}, 3, 3),
        ({"self_pairs": False}, 2, 2),
        ({"mechanism": "pairwise"}, 6, 9),
        ({"mechanism": "pairwise", "self_pairs": False}, 3, 6),
    ],
)
def test_mechanisms_have_their_numbers_of_terms(
    small: dict[str, Any], settings: dict[str, Any], n_pairs: int, n_terms: int
) -> None:
    """V terms against V² (the paper's second theorem), less the views with themselves."""
    model = DWCL(3, **small, **settings, random_state=0).fit(easy(0))
    assert len(model.pair_weights_) == n_pairs
    assert sum(pair["terms"] for pair in model.pair_weights_) == n_terms
    assert all(len(r["contrast"]) == n_pairs for r in records(model, "epoch") if "contrast" in r)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"quality_weight": False, "discrepancy_weight": False}, lambda r, v, b: 1.0),
        ({"quality_weight": False}, lambda r, v, b: math.expm1(r["cmi"][v][b])),
        (
            {"discrepancy_weight": False},
            lambda r, v, b: math.exp(r["quality"][v] + r["quality"][b]),
        ),
        (
            {"quality_weight": lambda one, two: one * two, "discrepancy_weight": lambda c: 2 * c},
            lambda r, v, b: r["quality"][v] * r["quality"][b] * 2 * r["cmi"][v][b],
        ),
    ],
)
def test_each_factor_of_the_weights_can_be_switched_off_or_replaced(
    small: dict[str, Any], settings: dict[str, Any], expected: Any
) -> None:
    model = DWCL(3, **small, **settings, random_state=0).fit(easy(0))
    record = records(model, "assessment")[1]
    best = model.view_names_.index(record["best_view"])
    for v, pair in enumerate(record["pairs"]):
        assert pair["weight"] == pytest.approx(expected(record, v, best))


def test_quality_and_choice_are_replaceable(small: dict[str, Any]) -> None:
    def width(features: Tensor, labels: Tensor, generator: torch.Generator) -> float:
        return float(features.shape[1] + labels[0] * 0)

    model = DWCL(3, **small, quality=width, choose=lambda quality, agreement: 2, random_state=0)
    model.fit(easy(0))
    assert {record["best_view"] for record in records(model, "assessment")} == {"view3"}
    assert records(model, "assessment")[0]["quality"] == [16.0] * 3  # the width of H
    assert "silhouette_samples" not in records(model, "assessment")[0]


def test_choosing_by_agreement_takes_the_view_that_others_confirm(small: dict[str, Any]) -> None:
    model = DWCL(3, **small, choose="agreement", random_state=0).fit(easy(0))
    for record in records(model, "assessment"):
        sums = np.asarray(record["cmi"]).sum(axis=1)
        assert record["best_view"] == model.view_names_[int(sums.argmax())]


def test_reconstruction_can_be_switched_off_after_pretraining(small: dict[str, Any]) -> None:
    model = DWCL(3, **small, reconstruction_weight=0, random_state=0).fit(easy(0))
    by_phase = {r["phase"]: set(r) for r in records(model, "epoch")}
    assert "reconstruction" in by_phase["pretrain"]
    assert "reconstruction" not in by_phase["contrast-1"]


def test_contrast_can_be_switched_off(small: dict[str, Any]) -> None:
    model = DWCL(3, **small, contrast_weight=0, random_state=0).fit(easy(0))
    assert not any("contrast" in record for record in records(model, "epoch"))


def test_nothing_left_to_learn_is_refused(small: dict[str, Any]) -> None:
    model = DWCL(3, **small, contrast_weight=0, reconstruction_weight=0)
    with pytest.raises(SettingError, match="Nothing is left to learn"):
        model.fit(easy(0))


CHANGES: dict[str, Any] = {
    "mechanism": "pairwise",
    "self_pairs": False,
    "quality": lambda features, labels, generator: 0.1 * features.shape[0] / 80,
    "choose": lambda quality, agreement: 2,
    "quality_weight": False,
    "discrepancy_weight": False,
    "contrast_weight": 0.1,
    "reconstruction_weight": 0.1,
    "temperature": 0.5,
    "encoder": (20,),
    "decoder": (5, 6),
    "latent": 12,
    "embedding": 6,
    "pretrain_epochs": 7,
    "iterations": 1,
    "epochs": 5,
    "batch_size": 64,
    "learning_rate": 1e-3,
    "optimiser_reset": "epoch",
    "scaling": "standard",
    "silhouette_budget": 20,
    "precision": "bf16",
    "random_state": 1,
}
# Those that change no embedding have tests of their own.
OTHERS = {"n_clusters", "n_init", "memory_budget", "baselines", "device", "threads"}


def test_every_setting_is_looked_at() -> None:
    assert set(CHANGES) | OTHERS == set(DWCL().get_params())


@pytest.mark.parametrize("name", CHANGES)
def test_every_setting_has_an_effect(small: dict[str, Any], name: str) -> None:
    plain = small | {"random_state": 0}
    one, two = (
        DWCL(3, **settings).fit(easy(0, n=80)).embedding_
        for settings in (plain, plain | {name: CHANGES[name]})
    )
    assert one.shape != two.shape or not np.allclose(one, two, atol=1e-5)


def test_the_reset_of_the_optimiser_by_phase_has_an_effect_too(small: dict[str, Any]) -> None:
    embeddings = [
        DWCL(3, **small, random_state=0, optimiser_reset=reset).fit(easy(0, n=80)).embedding_
        for reset in ("never", "phase", "epoch")
    ]
    for one, two in ((0, 1), (0, 2), (1, 2)):
        assert not np.allclose(embeddings[one], embeddings[two], atol=1e-5)


def test_widths_are_those_of_the_settings(small: dict[str, Any]) -> None:
    model = DWCL(3, **(small | {"encoder": (7, 9), "latent": 5, "embedding": 4})).fit(easy(0))
    shapes = {name: tuple(t.shape) for name, t in model.networks_.state_dict().items()}
    encoder = [shapes[f"autoencoders.0.encoder.{i}.weight"] for i in (0, 2, 4)]
    decoder = [shapes[f"autoencoders.0.decoder.{i}.weight"] for i in (0, 2, 4)]
    assert encoder == [(7, 10), (9, 7), (5, 9)]
    assert decoder == [(9, 5), (7, 9), (10, 7)]
    assert shapes["heads.0.0.weight"] == (4, 5)


def test_the_paper_s_networks_have_the_known_number_of_parameters() -> None:
    """1001·d + 4,620,176 for widths 500, 500, 2000, 512 and a head of 128."""
    networks = ViewNetworks(
        (20, 59),
        encoder=(500, 500, 2000),
        latent=512,
        decoder=(2000, 500, 500),
        embedding=128,
        generators=[RandomStreams(0).torch(str(v)) for v in range(2)],
    )
    total = sum(p.numel() for p in networks.parameters())
    assert total == 1001 * (20 + 59) + 2 * 4_620_176


def test_pretraining_leaves_the_heads_as_they_were_drawn(small: dict[str, Any]) -> None:
    short = DWCL(3, **(small | {"iterations": 0, "pretrain_epochs": 0}), random_state=0)
    long = DWCL(3, **(small | {"iterations": 0}), random_state=0)
    heads = [m.fit(easy(0)).networks_.state_dict()["heads.1.0.weight"] for m in (short, long)]
    assert torch.equal(*heads)


# -- shapes at the edge ----------------------------------------------------------------------------


@pytest.mark.parametrize("n_views", [1, 2, 7])
@pytest.mark.parametrize("mechanism", ["best-other", "pairwise"])
def test_any_number_of_views(small: dict[str, Any], n_views: int, mechanism: str) -> None:
    data = make_multiview(60, 3, widths=(6,) * n_views, random_state=0)
    model = DWCL(3, **small, mechanism=mechanism, random_state=0).fit(data)
    assert model.embedding_.shape == (60, 8 * n_views)
    assert len(np.unique(model.labels_)) == 3


@pytest.mark.parametrize(("n", "batch"), [(10, 128), (33, 32), (12, 1), (31, 31)])
def test_any_size_of_batch(small: dict[str, Any], n: int, batch: int) -> None:
    model = DWCL(2, **(small | {"batch_size": batch}), random_state=0).fit(easy(0, n=n, k=2))
    assert np.isfinite(model.embedding_).all()


def test_as_many_clusters_as_samples(small: dict[str, Any]) -> None:
    model = DWCL(6, **small, random_state=0).fit(easy(0, n=6, k=2))
    assert sorted(model.labels_.tolist()) == list(range(6))


def test_more_clusters_than_samples_are_refused(small: dict[str, Any]) -> None:
    with pytest.raises(DataError, match="n_clusters is 7, but the data have 6 samples"):
        DWCL(7, **small).fit(easy(0, n=6, k=2))


def test_a_constant_column_and_integer_views_are_no_obstacle(small: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    view = rng.integers(0, 9, (40, 5))
    view[:, 2] = 3
    model = DWCL(2, **small, random_state=0).fit({"counts": view, "real": rng.normal(size=(40, 3))})
    assert np.isfinite(model.embedding_).all()
    assert any("constant" in note for note in model.notes_)


# -- yardsticks ------------------------------------------------------------------------------------


def test_baselines_cluster_the_pretrained_features_alone(small: dict[str, Any]) -> None:
    data = easy(0)
    model = DWCL(3, **small, random_state=0).fit(data)
    first = model.assessments_[0]
    assert_array_equal(model.baseline_labels_["bsv"], first.labels[first.best].numpy())
    assert adjusted_rand_score(data.labels, model.baseline_labels_["concat-ae"]) > 0.9


def test_baselines_can_be_left_out_without_changing_the_rest(small: dict[str, Any]) -> None:
    with_, without = (
        DWCL(3, **small, random_state=0, baselines=wanted).fit(easy(0)) for wanted in (True, False)
    )
    assert without.baseline_labels_ == {}
    assert_array_equal(with_.embedding_, without.embedding_)


def test_the_reconstruction_gradient_is_right() -> None:
    networks = ViewNetworks(
        (3, 2),
        encoder=(4,),
        latent=3,
        decoder=(4,),
        embedding=2,
        generators=[RandomStreams(0).torch(str(v)) for v in range(2)],
    ).double()
    rng = torch.Generator().manual_seed(0)
    xs = [torch.randn(5, d, generator=rng, dtype=torch.float64) for d in (3, 2)]
    batch = Batch(xs, torch.arange(5))
    parameter = next(networks.parameters())
    reconstruct(networks, batch).total.backward()
    step = 1e-6
    for index in ((0, 0), (3, 2)):
        slope = 0.0
        for sign in (1, -1):
            with torch.no_grad():
                parameter[index] += sign * step
                slope += sign * float(reconstruct(networks, batch).total) / (2 * step)
                parameter[index] -= sign * step
        assert parameter.grad is not None
        assert float(parameter.grad[index]) == pytest.approx(slope, rel=1e-5, abs=1e-9)


def test_clone_keeps_every_setting() -> None:
    model = DWCL(4, temperature=0.3, encoder=(10,), random_state=7)
    assert clone(model).get_params() == model.get_params()
