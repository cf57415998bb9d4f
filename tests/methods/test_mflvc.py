"""MFLVC: its objective, its schedule, and what its settings change."""

from __future__ import annotations

import doctest
import math
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from sklearn.metrics import adjusted_rand_score
from torch import Tensor

from dwcl import MultiView, make_multiview, recipe
from dwcl.errors import SettingError
from dwcl.methods import mflvc
from dwcl.methods.mflvc import MFLVC
from dwcl.methods.registry import get_method
from dwcl.nn import LevelNetworks
from dwcl.streams import RandomStreams
from dwcl.training.batches import Batch
from dwcl.training.loop import Trainer

SEEDS = (0, 1, 2)
SMALL: dict[str, Any] = {
    "encoder": (32, 32),
    "latent": 16,
    "embedding": 8,
    "pretrain_epochs": 4,
    "epochs": 3,
    "finetune_epochs": 3,
    "batch_size": 32,
    "learning_rate": 3e-3,
    "n_init": 3,
    "threads": 1,
    "precision": "fp32",
}
LONG = SMALL | {"pretrain_epochs": 20, "epochs": 120, "finetune_epochs": 30}


def data_of(seed: int = 0, n: int = 75, k: int = 3, n_views: int = 3, **how: Any) -> MultiView:
    widths = (10, 12, 8)[:n_views]
    settings = {"widths": widths, "quality": 0.7, "noise": 0.2} | how
    return make_multiview(n, k, **settings, random_state=seed)


def fitted(data: MultiView | None = None, k: int = 3, **settings: Any) -> MFLVC:
    return MFLVC(k, **(SMALL | {"random_state": 0} | settings)).fit(data or data_of())


def epochs_of(model: MFLVC, phase: str) -> list[dict[str, Any]]:
    return [record for record in model.history_ if record.get("phase") == phase]


def networks_for(
    widths: tuple[int, ...], k: int = 3, dtype: torch.dtype = torch.float64
) -> LevelNetworks:
    return LevelNetworks(
        widths,
        encoder=(7,),
        latent=5,
        decoder=(7,),
        embedding=4,
        n_clusters=k,
        generators=[RandomStreams(0).torch(str(v)) for v in range(len(widths))],
    ).to(dtype)


def batch_of(widths: tuple[int, ...], b: int, seed: int = 0) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    xs = [torch.randn(b, d, generator=generator, dtype=torch.float64) for d in widths]
    return Batch(xs, torch.arange(b))


# -- the objective ---------------------------------------------------------------------------------


def slow_contrast(one: Tensor, other: Tensor, temperature: float, cosine: bool) -> float:
    """The mean over both lists of a cross-entropy with the partner in the first place."""
    n = len(one)
    listed = [*one.tolist(), *other.tolist()]

    def similarity(a: list[float], c: list[float]) -> float:
        product = sum(p * q for p, q in zip(a, c, strict=True))
        if cosine:
            product /= max(math.hypot(*a), 1e-8) * max(math.hypot(*c), 1e-8)
        return product / temperature

    total = 0.0
    for r in range(2 * n):
        partner = (r + n) % (2 * n)
        positive = similarity(listed[r], listed[partner])
        negatives = [
            similarity(listed[r], listed[t]) for t in range(2 * n) if t not in (r, partner)
        ]
        total += math.log(sum(map(math.exp, [positive, *negatives]))) - positive
    return total / (2 * n)


def slow_balance(q: Tensor) -> float:
    shares = [sum(column) / len(q) for column in q.T.tolist()]
    return math.log(len(shares)) + sum(share * math.log(share) for share in shares)


@pytest.mark.parametrize("entropy", ["pair", "view"])
@pytest.mark.parametrize("n_views", [1, 2, 3, 4])
def test_the_loss_is_the_definition_by_plain_loops(n_views: int, entropy: Any) -> None:
    widths = (6, 4, 5, 3)[:n_views]
    networks, batch = networks_for(widths), batch_of(widths, 6)
    model = MFLVC(3, temperature=0.4, label_temperature=0.9, entropy=entropy)
    terms = model.contrast(networks, batch)
    hs = networks.encode(batch.views)
    zs, qs, decoded = networks.project(hs), networks.assign(hs), networks.decode(hs)
    total = sum((x - y).square().mean().item() for x, y in zip(batch.views, decoded, strict=True))
    counted = [0] * n_views
    for v in range(n_views):
        for w in range(v + 1, n_views):
            total += slow_contrast(zs[v], zs[w], 0.4, cosine=False)
            total += slow_contrast(qs[v].T, qs[w].T, 0.9, cosine=True)
            counted[v] += 1
            counted[w] += 1
    for v, q in enumerate(qs):
        total += (counted[v] if entropy == "pair" else 1) * slow_balance(q)
    assert terms.total.item() == pytest.approx(total, rel=1e-9)
    pairs = n_views * (n_views - 1) // 2
    sizes = {name: len(part) for name, part in terms.parts.items()}
    by_pair = {"contrast": pairs, "label_contrast": pairs} if pairs else {}
    assert sizes == {"reconstruction": n_views, "balance": n_views, **by_pair}


def test_for_two_views_both_ways_of_counting_are_one() -> None:
    networks, batch = networks_for((6, 4)), batch_of((6, 4), 5)
    totals = [MFLVC(3, entropy=way).contrast(networks, batch).total for way in ("pair", "view")]
    assert torch.equal(*totals)


@pytest.mark.parametrize("n_views", [1, 3])
def test_the_gradient_of_the_loss_is_right(n_views: int) -> None:
    widths = (6, 4, 5)[:n_views]
    networks, batch = networks_for(widths), batch_of(widths, 4)
    model = MFLVC(3)

    def total(*xs: Tensor) -> Tensor:
        return model.contrast(networks, Batch(list(xs), batch.index)).total

    assert torch.autograd.gradcheck(total, tuple(x.requires_grad_() for x in batch.views))


def test_a_batch_of_one_and_a_single_cluster_are_finite() -> None:
    for k, b in ((3, 1), (1, 4), (1, 1)):
        networks, batch = networks_for((6, 4), k), batch_of((6, 4), b)
        terms = MFLVC(k).contrast(networks, batch)
        terms.total.backward()
        assert terms.total.isfinite()
        assert all(p.grad is None or p.grad.isfinite().all() for p in networks.parameters())


def test_a_step_has_a_path_on_another_device() -> None:
    meta = torch.device("meta")
    networks = networks_for((6, 4), dtype=torch.float32).to(meta)
    batch = Batch([torch.empty(7, d, device=meta) for d in (6, 4)], torch.empty(7, device=meta))
    terms = MFLVC(3).contrast(networks, batch)
    terms.total.backward()
    assert all(p.grad is not None for p in networks.parameters())


# -- the schedule ----------------------------------------------------------------------------------


def test_three_phases_and_what_they_put_on_record() -> None:
    model = fitted()
    phases = [record["phase"] for record in model.history_[:-1]]
    assert phases == ["pretrain"] * 4 + ["contrast"] * 3 + ["finetune"] * 3
    assert model.history_[-1]["event"] == "agreement"
    pretrain, contrast, finetune = (
        epochs_of(model, name)[1] for name in ("pretrain", "contrast", "finetune")
    )
    assert len(pretrain["reconstruction"]) == len(contrast["reconstruction"]) == 3
    assert len(contrast["contrast"]) == len(contrast["label_contrast"]) == 3
    assert len(finetune["pseudo_label"]) == len(finetune["agreement"]) == 3
    assert contrast["loss"] == pytest.approx(
        sum(map(sum, (contrast[part] for part in ("reconstruction", "contrast", "label_contrast"))))
        + 2 * sum(contrast["balance"]),
        rel=1e-5,
    )
    assert pretrain["loss"] == pytest.approx(sum(pretrain["reconstruction"]), rel=1e-5)
    assert finetune["loss"] == pytest.approx(sum(finetune["pseudo_label"]), rel=1e-5)


@pytest.mark.parametrize(
    ("n", "batch", "last", "expected"),
    [(75, 32, "drop", 2), (75, 32, "keep", 3), (64, 32, "drop", 2), (20, 32, "drop", 1)],
)
def test_the_last_short_batch_is_dropped_unless_it_is_the_only_one(
    n: int, batch: int, last: str, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[tuple[str, int]] = []
    original = Trainer._step

    def counted(self: Trainer, phase: Any, batch: Batch, *args: Any, **how: Any) -> None:
        sizes.append((phase.name, len(batch)))
        original(self, phase, batch, *args, **how)

    monkeypatch.setattr(Trainer, "_step", counted)
    once = {"pretrain_epochs": 1, "epochs": 1, "finetune_epochs": 1}
    fitted(data_of(n=n), batch_size=batch, last_batch=last, **once)
    for phase in ("pretrain", "contrast"):
        assert len([name for name, _ in sizes if name == phase]) == expected
    assert sum(size for name, size in sizes if name == "finetune") == n  # always all of them


def test_one_optimiser_keeps_its_moments_through_all_phases(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[torch.optim.Optimizer] = []
    original = torch.optim.Adam

    def adam(*args: Any, **how: Any) -> torch.optim.Optimizer:
        made.append(original(*args, **how))
        return made[-1]

    monkeypatch.setattr(torch.optim, "Adam", adam)
    model = fitted()
    assert len(made) == 1
    (group,) = made[0].param_groups
    assert (group["lr"], group["betas"], group["eps"]) == (3e-3, (0.9, 0.999), 1e-8)
    assert group["weight_decay"] == 0
    # Two steps in each of 4 epochs of pre-training and of 3 with contrast, then 3 steps.
    expected = {".encoder.": 8 + 6 + 3, ".decoder.": 8 + 6, "feature_head": 6, "label_head": 6 + 3}
    for (name, _), parameter in zip(
        model.networks_.named_parameters(), group["params"], strict=True
    ):
        (count,) = (steps for part, steps in expected.items() if part in name)
        assert int(made[0].state[parameter]["step"]) == count, name


def test_pretraining_leaves_the_heads_as_they_were_drawn() -> None:
    none = {"epochs": 0, "finetune_epochs": 0}
    states = [fitted(**none, pretrain_epochs=epochs).networks_.state_dict() for epochs in (0, 5)]
    for name in states[0]:
        assert torch.equal(states[0][name], states[1][name]) == ("head" in name), name


def test_networks_are_those_of_the_settings() -> None:
    model = fitted(encoder=(7, 9), latent=5, embedding=4)
    shapes = {name: tuple(t.shape) for name, t in model.networks_.state_dict().items()}
    assert [shapes[f"autoencoders.0.encoder.{i}.weight"] for i in (0, 2, 4)] == [
        (7, 10), (9, 7), (5, 9),
    ]  # fmt: skip
    assert [shapes[f"autoencoders.2.decoder.{i}.weight"] for i in (0, 2, 4)] == [
        (9, 5), (7, 9), (8, 7),
    ]  # fmt: skip
    assert (shapes["feature_head.0.weight"], shapes["label_head.0.weight"]) == ((4, 5), (3, 5))
    assert model.feature_widths_ == (4, 4, 4)


def test_the_defaults_are_those_of_the_reference() -> None:
    given = MFLVC().get_params()
    expected = {
        "temperature": 0.5, "label_temperature": 1.0, "entropy": "pair",
        "finetune_loss": "double-softmax", "encoder": (500, 500, 2000), "decoder": None,
        "latent": 512, "embedding": 128, "pretrain_epochs": 200, "epochs": 50,
        "finetune_epochs": 50, "last_batch": "drop", "batch_size": 256, "learning_rate": 3e-4,
        "scaling": "minmax",
    }  # fmt: skip
    assert {name: given[name] for name in expected} == expected
    assert MFLVC()._total_epochs() == 300
    assert get_method("mflvc") is MFLVC


# -- what comes out --------------------------------------------------------------------------------


def test_it_finds_clear_clusters_and_beats_its_untrained_networks() -> None:
    """Two clusters may melt into one, which no seed is safe from: most must succeed."""
    found, unseen, untrained = [], [], []
    raw = LONG | {"pretrain_epochs": 0, "epochs": 0, "finetune_epochs": 0}
    for seed in SEEDS:
        more = data_of(seed, n=120)
        data, new = more.take(range(90)), more.take(range(90, 120))
        model = MFLVC(3, **LONG, random_state=seed).fit(data)
        found.append(adjusted_rand_score(data.labels, model.labels_))
        unseen.append(adjusted_rand_score(new.labels, model.predict(new)))
        start = MFLVC(3, **raw, random_state=seed).fit(data)
        untrained.append(adjusted_rand_score(data.labels, start.labels_))
        # What the features hold does not depend on names.
        for labels in model.pseudo_labels_.values():
            assert adjusted_rand_score(data.labels, labels) > 0.8
        order = np.random.default_rng(0).permutation(30)
        assert_array_equal(model.predict(new.take(order)), model.predict(new)[order])
    assert np.median(found) > 0.9
    assert np.median(unseen) > 0.85
    assert min(np.subtract(found, untrained)) > 0.2


def test_the_order_of_named_views_changes_the_result_by_rounding_only() -> None:
    data = data_of()
    turned = data.select(tuple(reversed(data.names)))
    one, two = (fitted(given).predict_proba(given) for given in (data, turned))
    np.testing.assert_allclose(one, two, atol=1e-3)


# -- settings and shapes at the edge ---------------------------------------------------------------

CHANGES: dict[str, Any] = {
    "temperature": 0.2,
    "label_temperature": 0.3,
    "entropy": "view",
    "finetune_loss": "log",
    "encoder": (20,),
    "decoder": (5, 6),
    "latent": 12,
    "embedding": 6,
    "pretrain_epochs": 3,
    "epochs": 2,
    "finetune_epochs": 2,
    "last_batch": "keep",
    "batch_size": 25,
    "learning_rate": 1e-3,
    "scaling": "standard",
    "precision": "bf16",
    "random_state": 1,
}
OTHERS = {"n_clusters", "n_init", "memory_budget", "device", "threads"}


def test_every_setting_has_an_effect() -> None:
    assert set(CHANGES) | OTHERS == set(MFLVC().get_params())
    data = data_of(n=50)
    plain = fitted(data).predict_proba(data)
    for name, value in CHANGES.items():
        changed = fitted(data, **{name: value}).predict_proba(data)
        assert not np.allclose(plain, changed, atol=1e-7, rtol=0), name


@pytest.mark.parametrize(
    ("name", "value"),
    [("temperature", 0.0), ("entropy", "both"), ("finetune_loss", "nll"), ("last_batch", "pad")],
)
def test_settings_that_make_no_sense_are_refused(name: str, value: Any) -> None:
    with pytest.raises(SettingError, match=name):
        fitted(**{name: value})


def test_recipes_are_those_of_the_reference() -> None:
    expected = {"bdgp": 10, "fashion": 100, "mnist-usps": 50, "ccv": 50, "caltech5v7": 50}
    for name, epochs in expected.items():
        assert MFLVC(**recipe(name, "mflvc").settings).epochs == epochs
    assert [recipe(f"caltech{v}v", "mflvc").widths for v in (2, 3, 4)] == [
        (40, 254),
        (40, 254, 928),
        (40, 254, 928, 512),
    ]


def test_the_example_of_the_docstring() -> None:
    found = doctest.testmod(mflvc)
    assert found.attempted > 0
    assert found.failed == 0
