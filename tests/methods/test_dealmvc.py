"""DealMVC: its graphs and losses, its schedule, and what its settings change."""

from __future__ import annotations

import doctest
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from sklearn.metrics import adjusted_rand_score
from torch import Tensor

from dwcl import Checkpoints, MultiView, make_multiview, recipe
from dwcl.errors import SettingError
from dwcl.methods import dealmvc
from dwcl.methods.dealmvc import DealMVC
from dwcl.methods.registry import get_method
from dwcl.nn import LevelNetworks
from dwcl.streams import RandomStreams
from dwcl.training.batches import Batch
from dwcl.training.loop import Trainer
from dwcl.training.memory import count_parameters

SEEDS = (0, 1, 2)
SMALL: dict[str, Any] = {
    "encoder": (32, 32),
    "latent": 16,
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


def fitted(data: MultiView | None = None, k: int = 3, **settings: Any) -> DealMVC:
    return DealMVC(k, **(SMALL | {"random_state": 0} | settings)).fit(data or data_of())


def epochs_of(model: DealMVC, phase: str) -> list[dict[str, Any]]:
    return [record for record in model.history_ if record.get("phase") == phase]


def networks_for(
    widths: tuple[int, ...], k: int = 3, dtype: torch.dtype = torch.float64
) -> LevelNetworks:
    networks = LevelNetworks(
        widths,
        encoder=(7,),
        latent=5,
        decoder=(7,),
        embedding=5,
        n_clusters=k,
        generators=[RandomStreams(0).torch(str(v)) for v in range(len(widths))],
    ).to(dtype)
    with torch.no_grad():  # assignments that are neither uniform nor certain
        networks.label_head[0].weight.mul_(15)
    return networks


def batch_of(widths: tuple[int, ...], b: int, seed: int = 0) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    xs = [torch.randn(b, d, generator=generator, dtype=torch.float64) for d in widths]
    return Batch(xs, torch.arange(b))


# -- the objective ---------------------------------------------------------------------------------


def slow_graph(q: Tensor, other: Tensor, threshold: float) -> list[list[float]]:
    rows = []
    for i in range(len(q)):
        row = [1.0 if i == j else (q[i] * other[j]).sum().item() for j in range(len(q))]
        kept = [value if value >= threshold else 0.0 for value in row]
        rows.append([value / sum(kept) for value in kept])
    return rows


def slow_calibration(z: Tensor, other: Tensor, graph: list[list[float]]) -> float:
    total = 0.0
    for i in range(len(z)):
        powers = [math.exp((z[i] * other[j]).sum().item()) for j in range(len(z))]
        total -= sum(
            w * math.log(p / sum(powers) + 1e-7) for w, p in zip(graph[i], powers, strict=True)
        )
    return total / len(z)


@pytest.mark.parametrize("compared", ["first", "all"])
@pytest.mark.parametrize("n_views", [1, 2, 3, 4, 5])
def test_the_loss_is_the_definition_by_plain_loops(n_views: int, compared: Any) -> None:
    widths = (6, 4, 5, 3, 7)[:n_views]
    networks, batch = networks_for(widths), batch_of(widths, 6)
    terms = DealMVC(3, threshold=0.5, consistency_pairs=compared).calibrate(networks, 0.6, batch)
    hs = networks.encode(batch.views)
    zs, qs, decoded = networks.project(hs), networks.assign(hs), networks.decode(hs)
    total = sum((x - y).square().mean().item() for x, y in zip(batch.views, decoded, strict=True))
    fused = 0.6 * torch.stack(zs).sum(0)
    of_all = networks.assign([fused])[0]
    whole = slow_graph(of_all, of_all, 0.5)
    total += slow_calibration(fused, fused, whole)
    by_pair, apart = [], []
    for v in range(n_views):
        for w in range(v + 1, n_views):
            graph = slow_graph(qs[v], qs[w], 0.5)
            by_pair.append(slow_calibration(zs[v], zs[w], graph))
            apart.append(float(np.square(np.subtract(whole, graph)).mean()))
    chosen = apart[:n_views] if compared == "first" and n_views > 2 else apart
    total += sum(by_pair) + sum(chosen)
    assert terms.total.item() == pytest.approx(total, rel=1e-9)
    if n_views > 1:
        assert terms.parts["contrast"].tolist() == pytest.approx(by_pair, rel=1e-9)
        assert terms.parts["consistency"].tolist() == pytest.approx(chosen, rel=1e-9)
        assert len(chosen) == (len(apart) if compared == "all" else min(len(apart), n_views))
        assert 0 < terms.parts["survivors"].mean().item() < 1
    assert len(terms.parts["survivors"]) == len(by_pair) + 1


def label_head_gradient(**settings: Any) -> Tensor:
    networks, batch = networks_for((6, 4, 5)), batch_of((6, 4, 5), 6)
    DealMVC(3, **settings).calibrate(networks, 0.6, batch).total.backward()
    grad = networks.label_head[0].weight.grad
    assert grad is not None
    return grad


def test_without_survivors_the_label_head_learns_nothing() -> None:
    networks, batch = networks_for((6, 4, 5)), batch_of((6, 4, 5), 6)
    terms = DealMVC(3, threshold=1.0).calibrate(networks, 0.6, batch)
    assert terms.parts["survivors"].tolist() == [0.0] * 4
    assert terms.parts["consistency"].tolist() == [0.0] * 3
    assert torch.count_nonzero(label_head_gradient(threshold=1.0)) == 0
    # A contrast in one direction at temperature 1 is left.
    zs = networks.project(networks.encode(batch.views))
    plain = torch.nn.functional.cross_entropy(zs[0] @ zs[1].T, torch.arange(6))
    assert terms.parts["contrast"][0].item() == pytest.approx(plain.item(), abs=1e-5)


def test_detached_graphs_teach_the_assignments_by_their_consistency_alone() -> None:
    settings = {"threshold": 0.5}
    free, cut = (label_head_gradient(**settings, detach=detach) for detach in (False, True))
    assert torch.count_nonzero(cut) > 0
    assert not torch.allclose(free, cut)
    networks, batch = networks_for((6, 4, 5)), batch_of((6, 4, 5), 6)
    terms = DealMVC(3, **settings).calibrate(networks, 0.6, batch)
    terms.parts["consistency"].sum().backward()
    torch.testing.assert_close(networks.label_head[0].weight.grad, cut)


def test_faded_features_leave_a_constant() -> None:
    networks, batch = networks_for((6, 4)), batch_of((6, 4), 6)
    terms = DealMVC(3, threshold=1.0).calibrate(networks, 0.0, batch)
    assert terms.parts["global_contrast"].item() == pytest.approx(math.log(6), abs=1e-5)
    terms.parts["global_contrast"].backward()
    for parameter in networks.feature_head.parameters():
        assert parameter.grad is None or torch.count_nonzero(parameter.grad) == 0


@pytest.mark.parametrize(
    ("way", "n_views", "expected"),
    [
        ("decay", 2, [1 / 4, 1 / 8, 1 / 16]),
        ("decay", 3, [1 / 9, 1 / 27, 1 / 81]),
        ("decay", 1, [1.0, 1.0, 1.0]),
        ("uniform", 2, [0.5, 0.5, 0.5]),
    ],
)
def test_weights_of_the_fusion(way: Any, n_views: int, expected: list[float]) -> None:
    model = DealMVC(fusion_weights=way)
    assert [model.fusion_weight(n_views, t) for t in (1, 2, 3)] == pytest.approx(expected)
    assert model.fusion_weight(n_views, 5000) >= 0  # far below the least number


def test_weights_begin_anew_in_every_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[float] = []
    original = DealMVC.calibrate

    def spy(self: DealMVC, networks: Any, weight: float, batch: Batch) -> Any:
        seen.append(weight)
        return original(self, networks, weight, batch)

    monkeypatch.setattr(DealMVC, "calibrate", spy)
    fitted(data_of(n_views=2), batch_size=25, epochs=2, finetune_epochs=0)
    assert seen == [1 / 4, 1 / 8, 1 / 16] * 2
    seen.clear()
    fitted(data_of(n_views=2), batch_size=25, epochs=2, fusion_weights="uniform")
    assert seen == [0.5] * 6


@pytest.mark.parametrize("n_views", [1, 3])
def test_the_gradient_of_the_loss_is_right(n_views: int) -> None:
    widths = (6, 4, 5)[:n_views]
    networks, batch = networks_for(widths), batch_of(widths, 4)
    model = DealMVC(3, threshold=0.5)

    def total(*xs: Tensor) -> Tensor:
        return model.calibrate(networks, 0.6, Batch(list(xs), batch.index)).total

    assert torch.autograd.gradcheck(total, tuple(x.requires_grad_() for x in batch.views))


def test_a_batch_of_one_and_a_single_cluster_are_finite() -> None:
    for k, b in ((3, 1), (1, 4), (1, 1)):
        networks, batch = networks_for((6, 4), k), batch_of((6, 4), b)
        terms = DealMVC(k).calibrate(networks, 0.5, batch)
        terms.total.backward()
        assert terms.total.isfinite()
        assert all(part.isfinite().all() for part in terms.parts.values())
        assert all(p.grad is None or p.grad.isfinite().all() for p in networks.parameters())


def test_a_step_has_a_path_on_another_device() -> None:
    meta = torch.device("meta")
    networks = networks_for((6, 4), dtype=torch.float32).to(meta)
    batch = Batch([torch.empty(7, d, device=meta) for d in (6, 4)], torch.empty(7, device=meta))
    terms = DealMVC(3).calibrate(networks, 0.5, batch)
    terms.total.backward()
    assert all(p.grad is not None for p in networks.parameters())


# -- the schedule ----------------------------------------------------------------------------------


def test_three_phases_and_what_they_put_on_record() -> None:
    model = fitted(threshold=0.3)
    phases = [record["phase"] for record in model.history_[:-1]]
    assert phases == ["pretrain"] * 4 + ["calibrate"] * 3 + ["finetune"] * 3
    assert model.history_[-1]["event"] == "agreement"
    record = epochs_of(model, "calibrate")[1]
    assert len(record["contrast"]) == len(record["consistency"]) == 3
    assert len(record["survivors"]) == 4
    assert 0 < min(record["survivors"]) <= max(record["survivors"]) <= 1
    parts = sum(map(sum, (record[part] for part in ("reconstruction", "contrast", "consistency"))))
    assert record["loss"] == pytest.approx(parts + record["global_contrast"], rel=1e-5)


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
    # Two steps, the short batch left out, in each of 4 and of 3 epochs, then 3 steps.
    expected = {".encoder.": 8 + 6 + 3, ".decoder.": 8 + 6, "feature_head": 6, "label_head": 6 + 3}
    for (name, _), parameter in zip(
        model.networks_.named_parameters(), group["params"], strict=True
    ):
        (count,) = (steps for part, steps in expected.items() if part in name)
        assert int(made[0].state[parameter]["step"]) == count, name


def test_the_published_number_of_parameters() -> None:
    with torch.device("meta"):
        networks = DealMVC(5)._build((3183, 3203), [torch.Generator(), torch.Generator()])
    assert count_parameters(networks) == 15_766_631


def test_the_defaults_are_those_of_the_reference() -> None:
    given = DealMVC().get_params()
    expected = {
        "threshold": 0.8, "fusion_weights": "decay", "consistency_pairs": "first",
        "detach": False, "finetune_loss": "double-softmax", "encoder": (500, 500, 2000),
        "decoder": None, "latent": 512, "pretrain_epochs": 300, "epochs": 100,
        "finetune_epochs": 50, "last_batch": "drop", "batch_size": 256, "learning_rate": 3e-4,
        "scaling": "minmax",
    }  # fmt: skip
    assert {name: given[name] for name in expected} == expected
    assert DealMVC()._total_epochs() == 450
    assert get_method("dealmvc") is DealMVC
    plain = DealMVC(5, **recipe("bbcsport", "dealmvc").settings).get_params()
    assert plain == DealMVC(5).get_params()
    assert "DualMVC" in (DealMVC.__doc__ or "")


# -- what comes out --------------------------------------------------------------------------------


def test_it_finds_clear_clusters_and_beats_its_untrained_networks() -> None:
    """Views may name clusters differently, which no seed is safe from: most must succeed."""
    found, unseen, untrained = [], [], []
    raw = LONG | {"pretrain_epochs": 0, "epochs": 0, "finetune_epochs": 0}
    for seed in SEEDS:
        more = data_of(seed, n=120)
        data, new = more.take(range(90)), more.take(range(90, 120))
        model = DealMVC(3, **LONG, random_state=seed).fit(data)
        found.append(adjusted_rand_score(data.labels, model.labels_))
        unseen.append(adjusted_rand_score(new.labels, model.predict(new)))
        start = DealMVC(3, **raw, random_state=seed).fit(data)
        untrained.append(adjusted_rand_score(data.labels, start.labels_))
        # What the features hold does not depend on names.
        for labels in model.pseudo_labels_.values():
            assert adjusted_rand_score(data.labels, labels) > 0.8
        order = np.random.default_rng(0).permutation(30)
        assert_array_equal(model.predict(new.take(order)), model.predict(new)[order])
    assert np.median(found) > 0.9
    assert np.median(unseen) > 0.85
    assert min(np.subtract(found, untrained)) > 0.2


class BrokenError(Exception):
    """Stands for a crash."""


@pytest.mark.parametrize("step", [14, 15, 18, 23, 28])
def test_broken_between_two_steps_it_ends_in_the_same_bytes(
    tmp_path: Path, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """12 steps of pre-training, 9 of calibration with weights by step, 4 blocks in 3 epochs."""
    data, settings = data_of(n=50), SMALL | {"batch_size": 16, "random_state": 0}
    whole = DealMVC(3, **settings).fit(data)
    model = DealMVC(3, **settings)
    original, steps = Trainer._step, [0]

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
    assert whole.embedding_.tobytes() == model.embedding_.tobytes()
    histories = [[{**r, "seconds": 0} for r in m.history_] for m in (whole, model)]
    assert histories[0] == histories[1]


# -- settings and shapes at the edge ---------------------------------------------------------------

# What the threshold has to do with shows itself where some samples reach it.
CHANGES: dict[str, Any] = {
    "threshold": 0.5,
    "fusion_weights": "uniform",
    "consistency_pairs": "all",
    "detach": True,
    "finetune_loss": "log",
    "encoder": (20,),
    "decoder": (5, 6),
    "latent": 12,
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
    assert set(CHANGES) | OTHERS == set(DealMVC().get_params())
    # The choice of pairs matters for four views and more.
    data = make_multiview(50, 3, widths=(10, 12, 8, 5), quality=0.7, noise=0.2, random_state=0)
    plain = fitted(data, threshold=0.333).predict_proba(data)
    for name, value in CHANGES.items():
        changed = fitted(data, **({"threshold": 0.333} | {name: value})).predict_proba(data)
        assert not np.allclose(plain, changed, atol=1e-7, rtol=0), name


@pytest.mark.parametrize(
    ("name", "value"),
    [("threshold", 1.1), ("threshold", -0.1), ("fusion_weights", "learnt"), ("detach", 1)],
)
def test_settings_that_make_no_sense_are_refused(name: str, value: Any) -> None:
    with pytest.raises(SettingError, match=name):
        fitted(**{name: value})


def test_the_example_of_the_docstring() -> None:
    found = doctest.testmod(dealmvc)
    assert found.attempted > 0
    assert found.failed == 0
