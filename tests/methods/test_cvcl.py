"""CVCL: its networks, its loss against plain loops, what it learns and what it reports."""

from __future__ import annotations

import math
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score
from torch import Tensor

from dwcl import Checkpoints, MultiView, load_model, make_multiview, recipe, save_model
from dwcl.errors import DataError, SettingError
from dwcl.experiments.recipes import recipes
from dwcl.methods.cvcl import CVCL, AssigningNetworks
from dwcl.nn import set_precision
from dwcl.streams import RandomStreams
from dwcl.training.batches import Batch
from dwcl.training.callbacks import Callback, Record
from dwcl.training.loop import Trainer

SEEDS = (0, 1, 2)


@pytest.fixture
def short() -> dict[str, Any]:
    return {
        "encoder": (16,),
        "latent": 12,
        "classifier": 8,
        "pretrain_epochs": 3,
        "epochs": 3,
        "batch_size": 20,
        "learning_rate": 3e-3,
        "threads": 1,
        "precision": "fp32",
    }


@pytest.fixture
def thorough(short: dict[str, Any]) -> dict[str, Any]:
    better = {"encoder": (32,), "latent": 32, "classifier": 16, "batch_size": 40}
    weights = {"contrast_weight": 0.05, "entropy_weight": 0.05}
    return short | better | weights | {"pretrain_epochs": 20, "epochs": 60}


def easy(seed: int, n: int = 60, k: int = 3, views: int = 2) -> MultiView:
    quality, noise = (1.0, 0.5, 0.3)[:views], (0.05, 0.2, 0.3)[:views]
    widths = (10, 12, 8)[:views]
    return make_multiview(n, k, widths=widths, quality=quality, noise=noise, random_state=seed)


def networks_for(widths: tuple[int, ...], k: int, seed: int = 0, **sizes: Any) -> AssigningNetworks:
    generators = [RandomStreams(seed).torch("networks", str(v)) for v in range(len(widths))]
    sizes = {"encoder": (6,), "latent": 5, "classifier": 4} | sizes
    return AssigningNetworks(widths, n_clusters=k, generators=generators, **sizes)


def batch_for(widths: tuple[int, ...], b: int, seed: int = 0) -> Batch:
    rng = torch.Generator().manual_seed(seed)
    views = [torch.rand(b, d, generator=rng, dtype=torch.float64) for d in widths]
    return Batch(views, torch.arange(b))


def records(model: CVCL, phase: str) -> list[Record]:
    return [r for r in model.history_ if r.get("phase") == phase]


# -- the loss --------------------------------------------------------------------------------------


def slow_terms(t: Tensor, u: Tensor, temperature: float, similarity: str) -> tuple[float, float]:
    """Contrast and entropy of a pair of sharpened assignments, column by column."""
    k = t.shape[1]
    columns = [t[:, j] for j in range(k)] + [u[:, j] for j in range(k)]

    def like(a: Tensor, b: Tensor) -> float:
        size = float(a.norm() * b.norm()) if similarity == "cosine" else 1.0
        return float(a @ b) / size / temperature

    contrast = 0.0
    for r, own in enumerate(columns):
        partner = (r + k) % (2 * k)
        positive = math.exp(like(own, columns[partner]))
        others = [c for s, c in enumerate(columns) if s not in (r, partner)]
        contrast -= math.log(positive / (positive + sum(math.exp(like(own, c)) for c in others)))
    entropy = 0.0
    for q in (t, u):
        for j in range(k):
            share = float(q[:, j].sum() / q.sum())
            entropy += share * math.log(share)
    return contrast / (2 * k), entropy


def slow_sharpened(q: Tensor) -> Tensor:
    rows = []
    for row in q:
        weighed = [float(row[j]) ** 2 / float(q[:, j].sum()) for j in range(q.shape[1])]
        rows.append([w / sum(weighed) for w in weighed])
    return torch.tensor(rows, dtype=q.dtype)


@pytest.mark.parametrize("similarity", ["dot", "cosine"])
@pytest.mark.parametrize("n_views", [2, 3, 4])
@torch.no_grad()
def test_the_loss_is_that_of_plain_loops(similarity: Any, n_views: int) -> None:
    widths = (4, 3, 5, 2)[:n_views]
    networks = networks_for(widths, 3).double()
    model = CVCL(3, contrast_weight=0.3, entropy_weight=0.2, temperature=0.7)
    batch = batch_for(widths, 7)
    found = model.contrast(networks, similarity, batch)
    ts, total = [], 0.0
    for ae, x in zip(networks.each(), batch.views, strict=True):
        h = ae.encoder(x).clamp(min=0)
        errors = (ae.decoder(h).clamp(min=0) - x).square()
        total += float(errors.sum()) / errors.numel()
        first, second = (layer[0] for layer in networks.classifier)
        logits = (h @ first.weight.T + first.bias) @ second.weight.T + second.bias
        ts.append(slow_sharpened(logits.exp() / logits.exp().sum(1, keepdim=True)))
    for n, (v, w) in enumerate(combinations(range(n_views), 2)):
        contrast, entropy = slow_terms(ts[v], ts[w], 0.7, similarity)
        assert float(found.parts["contrast"][n]) == pytest.approx(contrast)
        total += 0.3 * contrast + 0.2 * entropy
    assert float(found.total) == pytest.approx(total)
    assert found.parts["entropy"].shape == found.parts["reconstruction"].shape == (n_views,)


@pytest.mark.parametrize("similarity", ["dot", "cosine"])
def test_gradients_reach_inputs_and_classifier_as_they_should(similarity: Any) -> None:
    widths = (3, 2)
    networks = networks_for(widths, 3, classifier=3).double()
    model = CVCL(3, contrast_weight=0.5, entropy_weight=0.5)
    weights = [p.detach().requires_grad_() for p in networks.classifier.parameters()]
    names = [f"classifier.{name}" for name, _ in networks.classifier.named_parameters()]

    def value(*given: Tensor) -> Tensor:
        views, parameters = given[:2], dict(zip(names, given[2:], strict=True))
        batch = Batch(list(views), torch.arange(5))
        loss = _Loss(model, networks, similarity, batch)
        renamed = {f"networks.{name}": p for name, p in parameters.items()}
        out: Tensor = torch.func.functional_call(loss, renamed, ())
        return out

    views = [x.requires_grad_() for x in batch_for(widths, 5).views]
    assert torch.autograd.gradcheck(value, (*views, *weights))


class _Loss(torch.nn.Module):
    """The loss as a module, so that gradients with respect to weights can be checked."""

    def __init__(self, model: CVCL, networks: AssigningNetworks, similarity: Any, batch: Batch):
        super().__init__()
        self.networks, self.model, self.args = networks, model, (similarity, batch)

    def forward(self) -> Tensor:
        return self.model.contrast(self.networks, *self.args).total


# -- networks and schedule -------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "parameters"), [("mnistusps", 11_127_266), ("bdgp", 7_619_786)])
def test_the_official_networks_have_the_known_number_of_parameters(
    name: str, parameters: int
) -> None:
    found = recipe(name, "cvcl")
    assert found.widths is not None
    assert found.n_clusters is not None
    with torch.device("meta"):
        model = CVCL(found.n_clusters, **found.settings)
        networks = model._build(found.widths, [torch.Generator() for _ in found.widths])
    assert sum(p.numel() for p in networks.parameters()) == parameters


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_step_of_learning_has_a_path_on_another_device(precision: Any) -> None:
    with torch.device("meta"):
        model = CVCL(3, encoder=(6,), latent=5, classifier=4)
        networks = model._build((4, 3), [torch.Generator() for _ in range(2)])
        batch = Batch([torch.empty(7, d) for d in (4, 3)], torch.empty(7, dtype=torch.int64))
        set_precision(networks, precision)
        model.contrast(networks, "dot", batch).total.backward()
    assert all(p.grad is not None and p.grad.is_meta for p in networks.parameters())


@torch.no_grad()
def test_codes_and_reconstructions_are_not_negative() -> None:
    networks = networks_for((4, 3), 3, latent=20)
    hs = networks.encode([10 * x.float() - 5 for x in batch_for((4, 3), 40).views])
    decoded = networks.decode([10 * h for h in hs])
    for outs in (hs, decoded):
        assert min(float(out.min()) for out in outs) == 0
        assert max(float(out.max()) for out in outs) > 0


def test_there_is_nothing_between_the_layers_of_the_classifier() -> None:
    networks = networks_for((4, 3), 3).double()
    hs = [torch.randn(6, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))]
    zero, one, minus = (networks.classifier(t * hs[0]) for t in (0, 1, -1))
    torch.testing.assert_close(one - zero, zero - minus)


def test_the_classifier_goes_by_the_views_in_any_order_and_is_not_one_of_them() -> None:
    def classifier(*names: str) -> Tensor:
        generators = [RandomStreams(0).torch("networks", name) for name in names]
        networks = AssigningNetworks(
            (4,) * len(names), encoder=(4,), latent=4, classifier=4, n_clusters=2,
            generators=generators,
        )  # fmt: skip
        assert not torch.equal(
            networks.classifier[0][0].weight, networks.each()[0].encoder[0].weight
        )
        return networks.classifier[0][0].weight

    assert torch.equal(classifier("a", "b"), classifier("b", "a"))
    assert not torch.equal(classifier("a", "b"), classifier("a", "c"))


def test_pretraining_leaves_the_classifier_as_it_was_drawn(short: dict[str, Any]) -> None:
    models = [
        CVCL(3, **(short | {"pretrain_epochs": p, "epochs": 0}), random_state=0).fit(easy(0))
        for p in (0, 3)
    ]
    states = [model.networks_.state_dict() for model in models]
    for name in states[0]:
        assert torch.equal(states[0][name], states[1][name]) == name.startswith("classifier")


def test_schedule_and_history(short: dict[str, Any]) -> None:
    model = CVCL(3, **short, entropy_weight=0.1, random_state=0).fit(easy(0, views=3))
    assert [r["phase"] for r in model.history_] == ["pretrain"] * 3 + ["contrast"] * 3
    for record in records(model, "pretrain"):
        assert record["loss"] == pytest.approx(sum(record["reconstruction"]), rel=1e-5)
    for record in records(model, "contrast"):
        assert [len(record[p]) for p in ("reconstruction", "contrast", "entropy")] == [3, 3, 3]
        total = sum(record["reconstruction"]) + 0.01 * sum(record["contrast"])
        total += 0.1 * 2 * sum(record["entropy"])  # each view is in two pairs
        assert record["loss"] == pytest.approx(total, rel=1e-5)


def test_one_optimiser_all_through_and_short_batches_left_out(
    short: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, int]] = []
    original = Trainer._step

    def watched(self: Trainer, phase: Any, batch: Batch, *args: Any, **how: Any) -> None:
        seen.append((id(self._optimisers["main"]), len(batch)))
        original(self, phase, batch, *args, **how)

    monkeypatch.setattr(Trainer, "_step", watched)
    CVCL(3, **short, random_state=0).fit(easy(0, n=50))
    assert len({optimiser for optimiser, _ in seen}) == 1
    assert [size for _, size in seen] == [20, 20] * 6


@pytest.mark.parametrize(
    ("n", "batch", "k", "expected"),
    [(500, 35, 7, "dot"), (90, 100, 10, "dot"), (500, 100, 10, "cosine"), (99, 250, 9, "cosine")],
)
def test_the_rule_of_auto(n: int, batch: int, k: int, expected: str) -> None:
    assert CVCL(k, batch_size=batch)._similarity(n) == expected
    for similarity in ("dot", "cosine"):
        assert CVCL(k, batch_size=batch, similarity=similarity)._similarity(n) == similarity


def test_the_rule_of_auto_agrees_with_every_recipe() -> None:
    assert len(recipes("cvcl")) == 7
    for found in recipes("cvcl").values():
        assert found.n_clusters is not None
        settings = {n: v for n, v in found.settings.items() if n != "similarity"}
        model = CVCL(found.n_clusters, **settings)
        assert model._similarity(10_000) == found.settings["similarity"]


# -- what it learns --------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_it_finds_clear_clusters_and_beats_its_untrained_networks(
    thorough: dict[str, Any], seed: int
) -> None:
    data = easy(seed, n=120, views=3)
    model = CVCL(3, **thorough, random_state=seed).fit(data)
    score = adjusted_rand_score(data.labels, model.labels_)
    assert score > 0.9
    untrained = thorough | {"pretrain_epochs": 0, "epochs": 0}
    raw = CVCL(3, **untrained, random_state=seed).fit(data)
    assert score > adjusted_rand_score(data.labels, raw.labels_) + 0.3
    pretrained = CVCL(3, **(thorough | {"epochs": 0}), random_state=seed).fit(data)
    assert min(model.view_agreement_.values()) > 0.6
    assert set(model.empty_codes_) == set(data.names)
    assert model.empty_codes_ == pretrained.empty_codes_
    with torch.no_grad():
        by_view = model.networks_.assign(
            model.networks_.encode([torch.from_numpy(x) for x in model.scaling_.transform(data)])
        )
    for v, name in enumerate(data.names):
        alike = (by_view[v].argmax(1).numpy() == model.labels_).mean()
        assert model.view_agreement_[name] == pytest.approx(alike)


def test_codes_of_zeros_are_counted(short: dict[str, Any]) -> None:
    """Of two units it is common that both are off."""
    narrow = short | {"latent": 2, "encoder": (2,), "pretrain_epochs": 0, "epochs": 0}
    shares = []
    for seed in range(6):
        model = CVCL(3, **narrow, random_state=seed).fit(easy(0))
        parts = np.split(model.embedding_, 2, axis=1)
        for name, part in zip(model.view_names_, parts, strict=True):
            assert model.empty_codes_[name] == pytest.approx((part == 0).all(axis=1).mean())
        shares += model.empty_codes_.values()
    assert any(0 < share < 1 for share in shares)


def test_labels_are_the_greatest_mean_share(short: dict[str, Any]) -> None:
    data = easy(0)
    model = CVCL(3, **short, random_state=0).fit(data)
    shares = model.predict_proba(data)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0, atol=1e-5)
    assert_array_equal(shares.argmax(axis=1), model.labels_)
    assert_array_equal(model.predict(data), model.labels_)
    assert_array_equal(model.transform(data), model.embedding_)
    np.testing.assert_allclose(model.centre_distances(data), 1 - shares, atol=1e-6)
    with torch.no_grad():
        xs = [torch.from_numpy(x) for x in model.scaling_.transform(data)]
        by_view = model.networks_.assign(model.networks_.encode(xs))
    np.testing.assert_allclose(shares, by_view.mean(0).numpy(), atol=1e-6)
    assert len(model.get_feature_names_out()) == 24


def test_new_samples_go_to_the_clusters_of_their_kind_in_any_order(
    thorough: dict[str, Any],
) -> None:
    data = easy(0, n=180)
    model = CVCL(3, **thorough, random_state=0).fit(data.take(range(120)))
    new = data.take(range(120, 180))
    found = model.predict(new)
    assert adjusted_rand_score(new.labels, found) > 0.9
    order = np.random.default_rng(0).permutation(60)
    assert_array_equal(model.predict(new.take(order)), found[order])


def test_the_same_seed_gives_the_same_bytes_and_another_does_not(short: dict[str, Any]) -> None:
    one, two, other = (
        CVCL(3, **short, random_state=seed).fit(easy(0)).embedding_.tobytes() for seed in (3, 3, 4)
    )
    assert one == two
    assert one != other


def test_labels_given_to_fit_change_nothing(short: dict[str, Any]) -> None:
    data = easy(0)
    one = CVCL(3, **short, random_state=0).fit(data, data.labels)
    two = CVCL(3, **short, random_state=0).fit(data.with_labels(None))
    assert_array_equal(one.embedding_, two.embedding_)


def test_bf16_comes_near_fp32(short: dict[str, Any]) -> None:
    rough, fine = (
        CVCL(3, **(short | {"precision": p}), random_state=0).fit(easy(0)) for p in ("bf16", "fp32")
    )
    assert rough.embedding_.tobytes() != fine.embedding_.tobytes()
    for one, two in zip(rough.history_, fine.history_, strict=True):
        assert one["loss"] == pytest.approx(two["loss"], rel=0.03, abs=0.01)


class BrokenError(Exception):
    """Stands for a crash."""


class BreakAt(Callback):
    """Breaks a run at its n-th record."""

    def __init__(self, number: int) -> None:
        self.left = number

    def on_record(self, record: Record) -> None:
        self.left -= 1
        if self.left == 0:
            raise BrokenError


def bytes_of(model: CVCL, folder: Path) -> bytes:
    save_model(model, folder)
    content = [(folder / name).read_bytes() for name in ("model.json", "model.safetensors")]
    return b"".join(content) + model.embedding_.tobytes()


@pytest.mark.parametrize("record", range(1, 7))
def test_broken_at_any_record_it_ends_in_the_same_bytes(
    tmp_path: Path, short: dict[str, Any], record: int
) -> None:
    whole = CVCL(3, **short, random_state=0).fit(easy(0))
    model = CVCL(3, **short, random_state=0)
    checkpoints = Checkpoints(tmp_path / "c", every=0)
    with pytest.raises(BrokenError):
        model.fit(easy(0), callbacks=[BreakAt(record)], checkpoint=checkpoints)
    model.fit(easy(0), checkpoint=checkpoints)
    assert bytes_of(model, tmp_path / "a") == bytes_of(whole, tmp_path / "b")


def test_a_saved_model_predicts_the_same(tmp_path: Path, short: dict[str, Any]) -> None:
    data = easy(0)
    model = CVCL(3, **short, random_state=0).fit(data)
    again = load_model(save_model(model, tmp_path / "m"))
    assert isinstance(again, CVCL)
    assert_array_equal(again.predict_proba(data), model.predict_proba(data))
    assert_array_equal(again.labels_, model.labels_)
    assert again.view_agreement_ == model.view_agreement_
    assert again.empty_codes_ == model.empty_codes_


# -- settings and edges ----------------------------------------------------------------------------

CHANGES: dict[str, Any] = {
    "contrast_weight": 0.5,
    "entropy_weight": 0.5,
    "temperature": 0.3,
    "similarity": "cosine",
    "encoder": (9, 7),
    "latent": 11,
    "classifier": 7,
    "pretrain_epochs": 2,
    "epochs": 2,
    "batch_size": 30,
    "learning_rate": 1e-3,
    "scaling": "none",
    "precision": "bf16",
    "random_state": 1,
}
OTHERS = {"n_clusters", "memory_budget", "device", "threads"}


def test_every_setting_is_looked_at() -> None:
    assert set(CHANGES) | OTHERS == set(CVCL().get_params())


@pytest.mark.parametrize("name", CHANGES)
def test_every_setting_has_an_effect(short: dict[str, Any], name: str) -> None:
    plain = short | {"random_state": 0}
    one, two = (
        CVCL(3, **settings).fit(easy(0)).embedding_
        for settings in (plain, plain | {name: CHANGES[name]})
    )
    assert one.shape != two.shape or not np.allclose(one, two, atol=1e-6)


def test_data_read_by_batches_come_to_nearly_the_same(thorough: dict[str, Any]) -> None:
    data = easy(1, n=100)
    model = CVCL(3, **thorough, memory_budget=1e-6, random_state=1).fit(data)
    assert model.embedding_ is None
    assert_array_equal(model.predict(data), model.labels_)
    assert adjusted_rand_score(data.labels, model.labels_) > 0.9


@pytest.mark.parametrize("n_views", [2, 3])
@pytest.mark.parametrize(("n", "batch"), [(10, 128), (21, 20), (8, 1), (20, 20)])
def test_any_number_of_views_and_size_of_batch(
    short: dict[str, Any], n_views: int, n: int, batch: int
) -> None:
    data = easy(0, n=n, k=2, views=n_views)
    model = CVCL(2, **(short | {"batch_size": batch}), random_state=0).fit(data)
    assert np.isfinite(model.embedding_).all()
    assert len(model.history_) == 6


def test_one_cluster_and_as_many_as_samples(short: dict[str, Any]) -> None:
    assert CVCL(1, **short, random_state=0).fit(easy(0, k=2)).labels_.max() == 0
    assert np.isfinite(CVCL(6, **short, random_state=0).fit(easy(0, n=6, k=2)).embedding_).all()


def test_one_view_is_refused(short: dict[str, Any]) -> None:
    with pytest.raises(DataError, match=r"The data have 1 view; CVCL .* needs at least 2"):
        CVCL(3, **short).fit(easy(0, views=1))


@pytest.mark.parametrize(
    ("settings", "word"),
    [({"contrast_weight": 0.0}, "contrast_weight"), ({"similarity": "angle"}, "similarity")],
)
def test_settings_without_sense_are_refused(settings: dict[str, Any], word: str) -> None:
    with pytest.raises(SettingError, match=word):
        CVCL(3, **settings).fit(easy(0))


def test_negative_inputs_are_noted(short: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 9, (40, 5))
    counts[:, 2] = 3
    views = {"counts": counts, "real": rng.normal(size=(40, 3)).astype(np.float64)}
    said = {}
    for scaling in ("minmax", "none", "row-l2", "standard"):
        model = CVCL(2, **short, scaling=scaling).fit(views)
        said[scaling] = [note for note in model.notes_ if "ReLU" in note]
    assert said["minmax"] == []
    note = (
        "View 'real': scaling none leaves negative values, which decoders that end in ReLU cannot"
    )
    assert said["none"] == [f"{note} give; minmax leaves none."]
    assert len(said["row-l2"]) == 1
    assert len(said["standard"]) == 2


def test_clone_keeps_every_setting() -> None:
    model = CVCL(4, temperature=0.3, encoder=(10,), random_state=7)
    assert clone(model).get_params() == model.get_params()
