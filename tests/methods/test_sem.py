"""SEM: its losses and weights, its schedule, and what its settings change."""

from __future__ import annotations

import doctest
import importlib
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score
from torch import Tensor
from torch.nn import functional

from dwcl import Checkpoints, MultiView, load_model, make_multiview, recipe, save_model
from dwcl.errors import SettingError
from dwcl.evaluate.summary import score_views
from dwcl.methods import sem
from dwcl.methods.sem import SEM
from dwcl.nn import ViewNetworks, with_noise
from dwcl.storage.descriptions import PairWeight
from dwcl.streams import RandomStreams
from dwcl.training.batches import Batch, InMemory
from dwcl.training.callbacks import Callback, Record
from dwcl.training.features import FeatureFile
from dwcl.training.loop import Trainer
from dwcl.views import Pair, every_pair, jsd, mmd

SEEDS = (0, 1, 2)
LOSSES = ("infonce", "pscl", "rince")
# JSD takes the least time of the measures; what is particular to one is tried with that one.
SHORT: dict[str, Any] = {"pretrain_epochs": 3, "epochs": 2, "batch_size": 16, "measure": "jsd"}


def easy(seed: int, n: int = 60, widths: tuple[int, ...] = (10, 12, 8)) -> MultiView:
    return make_multiview(n, 3, widths=widths, noise=0.1, random_state=seed)


def hard(seed: int) -> MultiView:
    return make_multiview(
        120, 3, widths=(20, 20), quality=(0.8, 0.8), noise=1.5, nonlinear=0.3, random_state=seed
    )


def records(model: SEM, event: str) -> list[dict[str, Any]]:
    return [record for record in model.history_ if record["event"] == event]


def networks(widths: Sequence[int], seed: int = 0) -> ViewNetworks:
    """Small ones in double precision, as tests of gradients need them."""
    generator = torch.Generator().manual_seed(seed)
    return ViewNetworks(
        widths,
        encoder=(5,),
        latent=4,
        decoder=(6,),
        embedding=3,
        generators=[generator for _ in widths],
    ).double()


def batch_of(widths: Sequence[int], b: int, seed: int = 0) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    views = [torch.rand(b, d, generator=generator, dtype=torch.float64) for d in widths]
    return Batch(views, torch.arange(b))


# -- the losses ------------------------------------------------------------------------------------


def slow_infonce(z_v: Tensor, z_w: Tensor) -> Tensor:
    """Temperature 1, row by row."""
    b, f = len(z_v), torch.cat([z_v, z_w])
    total = torch.zeros((), dtype=f.dtype)
    for a in range(2 * b):
        p = (a + b) % (2 * b)
        positive = (f[a] @ f[p]).exp()
        negatives = [(f[a] @ f[c]).exp() for c in range(2 * b) if c not in (a, p)]
        total = total - (positive / (positive + sum(negatives))).log()
    return total / (2 * b)


def slow_pscl(z_v: Tensor, z_w: Tensor) -> Tensor:
    b = len(z_v)
    attraction = sum(z_v[i] @ z_w[i] for i in range(b))
    repulsion = sum((z_v[i] @ z_w[j]) ** 2 for i in range(b) for j in range(b) if i != j)
    return torch.as_tensor(-2 / b * attraction + repulsion / (b * (b - 1)))


def slow_rince(z_v: Tensor, z_w: Tensor) -> Tensor:
    b, f = len(z_v), torch.cat([z_v, z_w])
    total = torch.zeros((), dtype=f.dtype)
    for a in range(2 * b):
        p = (a + b) % (2 * b)
        positive = (f[a] @ f[p] / 0.5).exp()
        negatives = sum((f[a] @ f[c] / 0.5).exp() for c in range(2 * b) if c not in (a, p))
        total = total - positive**0.5 / 0.5 + (0.001 * (positive + negatives)) ** 0.5 / 0.5
    return total / (2 * b)


SLOW = {"infonce": slow_infonce, "pscl": slow_pscl, "rince": slow_rince}


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        ("infonce", [0.758774, 0.551445, 0.850424]),
        ("pscl", [-1.62, -2.0, None]),
        ("rince", [-4.740085, None, None]),
    ],
)
def test_pairs_by_hand(loss: str, expected: list[float | None]) -> None:
    zs = [torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([[1.0, 0.0], [0.6, 0.8]])]
    found = SEM(2, loss=loss)._by_pair(zs, [(0, 1), (0, 0), (1, 1)]).tolist()
    for value, wanted in zip(found, expected, strict=True):
        if wanted is not None:
            assert value == pytest.approx(wanted, abs=2e-6)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("widths", "b"), [((4, 3), 5), ((4, 3, 2), 4), ((3,), 6)])
def test_the_loss_is_the_sum_over_all_ordered_pairs(
    loss: str, widths: tuple[int, ...], b: int
) -> None:
    made, batch = networks(widths), batch_of(widths, b)
    table = torch.rand(
        len(widths), len(widths), generator=torch.Generator().manual_seed(1)
    ).double()
    table = table + table.T
    pairs = every_pair(len(widths), lambda v, w: float(table[v, w]))
    weights = torch.tensor([pair.weight for pair in pairs], dtype=torch.float64)
    terms = SEM(2, loss=loss, reconstruction_weight=0.7).contrast(made, pairs, weights, None, batch)
    expected = torch.zeros((), dtype=torch.float64)
    zs, by_view = [], []
    for v, x in enumerate(batch.views):
        ae, head = made.each()[v], made.heads[v]
        h = ae.encoder(x)
        zs.append(functional.normalize(head(h), dim=1))
        by_view.append(((ae.decoder(h) - x) ** 2).sum() / x.numel())
    for v in range(len(widths)):
        for w in range(len(widths)):
            expected = expected + table[v, w] * SLOW[loss](zs[v], zs[w])
    expected = expected + 0.7 * sum(by_view)
    torch.testing.assert_close(terms.total, expected, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(terms.parts["reconstruction"], torch.stack(by_view))
    parameters = list(made.parameters())
    ours = torch.autograd.grad(terms.total, parameters)
    theirs = torch.autograd.grad(expected, parameters)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("noisy", [False, True])
def test_gradients_are_those_of_finite_differences(loss: str, noisy: bool) -> None:
    made, model = networks((3, 2)), SEM(2, loss=loss)
    pairs = every_pair(2, lambda v, w: 0.3 + v + w)
    weights = torch.tensor([pair.weight for pair in pairs], dtype=torch.float64)

    def corrupt(views: Sequence[Tensor]) -> list[Tensor]:
        generator = torch.Generator().manual_seed(7)
        return [with_noise(x, deviation=0.5, generator=generator) for x in views]

    def total(*views: Tensor) -> Tensor:
        batch = Batch(list(views), torch.arange(4))
        return model.contrast(made, pairs, weights, corrupt if noisy else None, batch).total

    views = tuple(x.requires_grad_() for x in batch_of((3, 2), 4).views)
    assert torch.autograd.gradcheck(total, views)


def test_contrast_takes_clean_samples_and_reconstruction_corrupted_ones() -> None:
    made, batch, model = networks((4, 3)), batch_of((4, 3), 5), SEM(2, reconstruction="dae")
    pairs = [Pair(0, 1, 2, 1.0)]
    others = [x.flip(1) + 1 for x in batch.views]
    clean, corrupted = (
        model.contrast(made, pairs, torch.ones(1), change, batch).parts
        for change in (None, lambda views: others)
    )
    torch.testing.assert_close(corrupted["contrast"], clean["contrast"], rtol=1e-12, atol=0)
    for v, (x, other) in enumerate(zip(batch.views, others, strict=True)):
        ae = made.each()[v]
        expected = functional.mse_loss(ae.decoder(ae.encoder(other)), x)  # the aim is the clean one
        torch.testing.assert_close(corrupted["reconstruction"][v], expected)
    assert not torch.allclose(corrupted["reconstruction"], clean["reconstruction"])


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kind", ["ae", "dae", "mae"])
def test_a_step_has_a_path_on_another_device(loss: str, kind: str) -> None:
    meta = torch.device("meta")
    made, model = networks((4, 3)).to(meta).train(), SEM(2, loss=loss, reconstruction=kind)
    trainer = Trainer(
        made, InMemory([torch.empty(5, 4)]), RandomStreams(0), batch_size=2, learning_rate=1.0
    )
    corrupt = model._corruption(trainer, ("a", "b"))
    batch = Batch(
        [torch.empty(5, d, dtype=torch.float64, device=meta) for d in (4, 3)], torch.arange(5)
    )
    pairs = every_pair(2, lambda v, w: 1.0)
    terms = model.contrast(made, pairs, torch.ones(3, device=meta), corrupt, batch)
    assert terms.total.is_meta
    torch.autograd.backward(terms.total)
    assert all(parameter.grad is not None for parameter in made.parameters())


def test_without_reconstruction_the_decoders_stay_as_pretraining_left_them(
    small: dict[str, Any],
) -> None:
    short, long = (
        fitted(small, reconstruction="mae", reconstruction_weight=0.0, iterations=iterations)
        for iterations in (0, 2)
    )
    for (name, one), other in zip(
        short.networks_.state_dict().items(), long.networks_.state_dict().values(), strict=True
    ):
        assert torch.equal(one, other) == ("decoder" in name), name
    by_phase = {record["phase"]: set(record) for record in records(long, "epoch")}
    assert "reconstruction" in by_phase["pretrain"]
    assert "reconstruction" not in by_phase["contrast-1"]


@pytest.mark.parametrize("loss", LOSSES)
def test_one_sample_leaves_attraction_alone(loss: str) -> None:
    zs = [torch.tensor([[1.0, 0.0]]).requires_grad_(), torch.tensor([[0.6, 0.8]]).requires_grad_()]
    found = SEM(2, loss=loss)._by_pair(zs, [(0, 1)])
    found.sum().backward()
    slope = zs[0].grad
    assert slope is not None
    assert slope.isfinite().all()
    if loss == "infonce":
        assert found.item() == pytest.approx(0, abs=1e-7)
        assert slope.abs().max() < 1e-6
    else:
        assert (slope * zs[1]).sum() < 0  # towards the partner


# -- weights ---------------------------------------------------------------------------------------


def fitted(small: dict[str, Any], data: MultiView | None = None, **settings: Any) -> SEM:
    chosen = small | SHORT | {"random_state": 0} | settings
    return SEM(3, **chosen).fit(easy(0) if data is None else data)


@pytest.mark.parametrize(
    ("measure", "own", "weight"),
    [
        ("cmi", 1.0, lambda value: math.exp(value) - 1),
        ("jsd", 0.0, lambda value: math.exp(1 - value) - 1),
        ("mmd", 0.0, lambda value: math.exp(-value)),
    ],
)
def test_weights_follow_from_what_was_measured(
    small: dict[str, Any], measure: str, own: float, weight: Any
) -> None:
    model = fitted(small, measure=measure)
    found = records(model, "weights")
    assert [record["iteration"] for record in found] == [0, 1, 2]
    for record in found:
        assert record["measure"] == measure
        values = np.asarray(record["values"])
        assert_array_equal(values, values.T)
        assert_array_equal(np.diag(values), own)
        assert len(np.unique(values)) == 4
        assert [pair["terms"] for pair in record["pairs"]] == [1, 2, 2, 1, 2, 1]
        for pair in record["pairs"]:
            v, w = (model.view_names_.index(name) for name in pair["views"])
            assert pair["weight"] == pytest.approx(pair["terms"] * weight(values[v, w]))
    top = 1.0 if measure == "mmd" else math.e - 1
    assert found[0]["pairs"][0]["weight"] == pytest.approx(top)
    assert model.pair_weights_ == found[-1]["pairs"]
    assert all(PairWeight.model_validate(pair) for pair in model.pair_weights_)


@pytest.mark.parametrize(("measure", "function"), [("jsd", jsd), ("mmd", mmd)])
def test_the_last_weights_are_those_of_the_final_features(
    small: dict[str, Any], measure: str, function: Any
) -> None:
    model = fitted(small, measure=measure)
    parts = [torch.from_numpy(part) for part in np.split(model.embedding_, 3, axis=1)]
    values = records(model, "weights")[-1]["values"]
    assert values[0][2] == pytest.approx(function(parts[0], parts[2]), rel=1e-12)
    assert values[1][2] == pytest.approx(function(parts[1], parts[2]), rel=1e-12)


def test_cmi_is_that_of_the_views_own_clusters(small: dict[str, Any]) -> None:
    from sklearn.metrics import normalized_mutual_info_score

    data = make_multiview(60, 3, widths=(10, 12), quality=(1.0, 0.8), noise=0.02, random_state=0)
    model = fitted(small, data, pretrain_epochs=15, measure="cmi")
    parts = np.split(model.embedding_, 2, axis=1)
    labels = [KMeans(3, n_init=10, random_state=0).fit_predict(part) for part in parts]
    found = records(model, "weights")[-1]["values"][0][1]
    assert found == pytest.approx(normalized_mutual_info_score(*labels), abs=1e-9)


@pytest.mark.parametrize(
    ("factor", "n_clusters"), [(0.1, 1), (0.5, 1), (1, 3), (1.9, 5), (4, 12), (100, 60)]
)
def test_views_are_clustered_into_so_many_times_k(
    small: dict[str, Any], monkeypatch: pytest.MonkeyPatch, factor: float, n_clusters: int
) -> None:
    asked = []

    def spy(h: Tensor, k: int, **how: Any) -> Any:
        asked.append((k, how["n_init"]))
        return original(h, k, **how)

    original = sem.cluster
    monkeypatch.setattr(sem, "cluster", spy)
    model = fitted(small, label_factor=float(factor), iterations=0, measure="cmi")
    assert asked == [(n_clusters, 3)] * 3
    assert len(np.unique(model.labels_)) == 3
    if n_clusters == 1:  # two clusterings of one cluster are the same
        assert records(model, "weights")[0]["values"] == [[1.0] * 3] * 3


def test_weights_come_from_h_once_and_then_from_unit_rows(
    small: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def spy(a: Tensor, b: Tensor) -> float:
        seen.append((a.shape[1], bool(torch.allclose(a.norm(dim=1), torch.ones(len(a))))))
        return 0.5

    monkeypatch.setattr(sem, "jsd", spy)
    fitted(small, easy(0, widths=(6, 5)), iterations=3)
    assert seen == [(16, False), (8, True), (8, True), (8, True)]


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


# -- schedule --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reset", "steps"),
    [
        # four batches an epoch; the first contrastive epoch goes on with the moments of the last
        ("epoch", [4, 8, 12, 4, 4, 4, 4, 4]),
        ("phase", [4, 8, 12, 16, 4, 8, 4, 8]),
        ("never", [4, 8, 12, 16, 20, 24, 28, 32]),
    ],
)
def test_epochs_weights_and_moments(
    small: dict[str, Any], monkeypatch: pytest.MonkeyPatch, reset: str, steps: list[int]
) -> None:
    """Two epochs under each of three weights: these are taken after the epochs 0, 2, 4 and 6."""
    counts: list[tuple[int, int]] = []
    original = Trainer.record

    def spy(self: Trainer, record: Record) -> None:
        if record["event"] == "epoch":
            state = self._optimisers["main"].state
            by_name = {
                n: state[p]["step"] for n, p in self.networks.named_parameters() if p in state
            }
            heads = [int(s) for name, s in by_name.items() if name.startswith("heads")]
            encoders = [int(s) for name, s in by_name.items() if "encoder" in name]
            counts.append((max(encoders), max(heads, default=0)))
        original(self, record)

    monkeypatch.setattr(Trainer, "record", spy)
    model = fitted(small, pretrain_epochs=2, iterations=3, epochs=2, optimiser_reset=reset)
    events = [record.get("phase", record["event"]) for record in model.history_]
    assert events == [
        "pretrain", "pretrain", "weights", "contrast-1", "contrast-1", "weights", "contrast-2",
        "contrast-2", "weights", "contrast-3", "contrast-3", "weights",
    ]  # fmt: skip
    assert [encoders for encoders, _ in counts] == steps
    first = [0, 0, 4]  # heads learn nothing from reconstruction
    assert [heads for _, heads in counts[:3]] == first
    assert len(records(model, "epoch")) == model._total_epochs()


def test_weights_are_those_on_record_all_through_an_iteration(small: dict[str, Any]) -> None:
    model = fitted(small, epochs=3, reconstruction_weight=2.0)
    weights = {record["iteration"]: record["pairs"] for record in records(model, "weights")}
    for record in records(model, "epoch"):
        if record["phase"] == "pretrain":
            assert record["loss"] == pytest.approx(sum(record["reconstruction"]), rel=1e-5)
            continue
        pairs = weights[int(record["phase"][-1]) - 1]
        contrast = sum(p["weight"] * c for p, c in zip(pairs, record["contrast"], strict=True))
        expected = contrast + 2.0 * sum(record["reconstruction"])
        assert record["loss"] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(("kind", "name"), [("dae", "with_noise"), ("mae", "with_zeros")])
def test_corruption_is_drawn_anew_for_every_batch_and_view(
    small: dict[str, Any], monkeypatch: pytest.MonkeyPatch, kind: str, name: str
) -> None:
    calls, original = [], getattr(sem, name)

    def spy(x: Tensor, *, generator: torch.Generator, **how: Any) -> Tensor:
        calls.append((generator.initial_seed(), how))
        return original(x, generator=generator, **how)

    monkeypatch.setattr(sem, name, spy)
    fitted(small, reconstruction=kind, iterations=1)
    epochs, batches, views = 3 + 2, 4, 3
    assert len({seed for seed, _ in calls}) == len(calls) == epochs * batches * views
    assert all(how == ({"deviation": 1.0} if kind == "dae" else {"share": 0.3}) for _, how in calls)


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


def test_the_temperature_is_that_of_the_loss() -> None:
    generator = torch.Generator().manual_seed(0)
    zs = list(functional.normalize(torch.randn(2, 5, 3, generator=generator), dim=2))
    for loss, default in (("infonce", 1.0), ("rince", 0.5)):
        found, same, other = (
            SEM(2, loss=loss, temperature=temperature)._by_pair(zs, [(0, 1)])
            for temperature in (None, default, 0.3)
        )
        assert torch.equal(found, same)
        assert not torch.allclose(found, other)


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
