"""ACCMVC: its networks, its loss, its schedule, and what comes out."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score
from torch import Tensor, nn

from dwcl import Checkpoints, MultiView, load_model, make_multiview, save_model
from dwcl.errors import SettingError
from dwcl.experiments.recipes import recipes
from dwcl.losses import damped_infonce
from dwcl.methods.accmvc import ACCMVC, AnchorNetworks
from dwcl.streams import RandomStreams
from dwcl.training.loop import Trainer

SEEDS = (0, 1, 2)
SMALL: dict[str, Any] = {
    "encoder": (32,),
    "latent": 16,
    "embedding": 16,
    "anchors": 8,
    "pretrain_epochs": 2,
    "epochs": 3,
    "batch_size": 32,
    "learning_rate": 3e-3,
    "n_init": 3,
    "threads": 1,
    "precision": "fp32",
}
LONG = SMALL | {"pretrain_epochs": 20, "epochs": 60}


def easy(seed: int, n: int = 70, k: int = 3) -> MultiView:
    views = {"widths": (10, 12, 8), "quality": (1.0, 0.5, 0.3), "noise": (0.05, 0.2, 0.3)}
    return make_multiview(n, k, **views, random_state=seed)


def fitted(data: MultiView, seed: int = 0, **settings: Any) -> ACCMVC:
    return ACCMVC(3, **(SMALL | {"random_state": seed} | settings)).fit(data)


def networks(widths: tuple[int, ...] = (5, 4), **others: Any) -> AnchorNetworks:
    sizes: dict[str, Any] = {
        "encoder": (6,), "latent": 4, "decoder": (6,), "embedding": 3, "anchors": 5,
    }  # fmt: skip
    generators = [RandomStreams(0).torch(f"view{v}") for v in range(len(widths))]
    return AnchorNetworks(widths, **(sizes | others), generators=generators)


def drawn(b: int, widths: tuple[int, ...] = (5, 4), seed: int = 0) -> list[Tensor]:
    rng = torch.Generator().manual_seed(seed)
    return [torch.randn(b, d, generator=rng, dtype=torch.float64) for d in widths]


# -- networks --------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_views", [1, 2, 3])
def test_the_reference_s_networks_have_the_known_numbers_of_parameters(n_views: int) -> None:
    widths = (20, 59, 40)[:n_views]
    with torch.device("meta"):
        made = ACCMVC()._build(widths, [torch.Generator() for _ in widths])
    assert isinstance(made, AnchorNetworks)

    def count(*parts: nn.Module) -> int:
        return sum(p.numel() for part in parts for p in part.parameters())

    autoencoders = count(made.autoencoders)
    assert autoencoders == sum(1001 * d + 4_554_512 for d in widths)
    assert count(made.head) == 65_664
    assert count(made.common) == 65_536 * n_views + 128
    assert count(made.to_anchors, made.from_anchors) == 65_536 * n_views
    if n_views == 2:
        assert (count(made.common), count(made.to_anchors, made.from_anchors)) == (131_200, 131_072)


def test_layers_are_those_of_the_settings() -> None:
    shapes = {
        name: tuple(t.shape)
        for name, t in fitted(easy(0), encoder=(7, 9), latent=5, embedding=4, anchors=6)
        .networks_.state_dict()
        .items()
    }
    assert [shapes[f"autoencoders.0.encoder.{i}.weight"] for i in (0, 2, 4)] == [
        (7, 10), (9, 7), (5, 9),
    ]  # fmt: skip
    assert [shapes[f"autoencoders.0.decoder.{i}.weight"] for i in (0, 2, 4)] == [
        (9, 5), (7, 9), (10, 7),
    ]  # fmt: skip
    assert {n: s for n, s in shapes.items() if not n.startswith("autoencoders")} == {
        "head.0.weight": (4, 5),
        "head.0.bias": (4,),
        "to_anchors.0.weight": (6, 15),
        "from_anchors.0.weight": (15, 6),
        "common.0.weight": (4, 15),
        "common.0.bias": (4,),
    }


def test_start_values_have_the_distribution_of_pytorch() -> None:
    made = networks((30, 20), latent=64, anchors=40, embedding=50)
    for layers, inputs in (
        (made.head, 64), (made.to_anchors, 128), (made.from_anchors, 40), (made.common, 128),
    ):  # fmt: skip
        weight = layers[0].weight.detach()
        bound = 1 / math.sqrt(inputs)
        assert 0.95 * bound < weight.abs().max() <= bound
        assert weight.var().item() == pytest.approx(bound**2 / 3, rel=0.1)


def test_the_common_feature_by_hand() -> None:
    made = networks().double().eval()
    hs = made.encode(drawn(7))
    state = {name: t.tolist() for name, t in made.state_dict().items()}
    kept = (torch.rand(7, 8, generator=torch.Generator().manual_seed(1)) > 0.5).double() * 2

    def product(weight: list[list[float]], x: list[float]) -> list[float]:
        return [sum(w * value for w, value in zip(row, x, strict=True)) for row in weight]

    for factors in (None, kept):
        found = made.fuse(hs, factors)
        for i in range(7):
            c = [*hs[0][i].tolist(), *hs[1][i].tolist()]
            powers = [math.exp(value) for value in product(state["to_anchors.0.weight"], c)]
            shares = [power / sum(powers) for power in powers]
            back = product(state["from_anchors.0.weight"], shares)
            factor = [1.0] * 8 if factors is None else factors[i].tolist()
            joint = [one + k * other for one, k, other in zip(c, factor, back, strict=True)]
            plain = product(state["common.0.weight"], joint)
            f = [p + bias for p, bias in zip(plain, state["common.0.bias"], strict=True)]
            length = math.sqrt(sum(value**2 for value in f))
            assert found[i].tolist() == pytest.approx([value / length for value in f])


def test_shares_in_the_anchors_and_rows_of_length_one() -> None:
    made = networks(anchors=64).double().eval()
    hs = made.encode(drawn(30))
    shares = made.anchor_shares(torch.cat(hs, dim=1))
    assert shares.shape == (30, 64)
    for rows in (shares, made.fuse(hs).square(), *(z.square() for z in made.project(hs))):
        torch.testing.assert_close(rows.sum(1), torch.ones(30, dtype=torch.float64))


def test_all_views_have_one_head() -> None:
    made = networks().double().eval()
    h = made.encode(drawn(6))[0]
    one, two = made.project([h, h])
    assert torch.equal(one, two)
    expected = nn.functional.normalize(made.head(h), dim=1)
    torch.testing.assert_close(one, expected)


# -- the loss --------------------------------------------------------------------------------------


def slow_shares(f: list[list[float]], m: int) -> list[list[float]]:
    table = []
    for one in f:
        far = [2 - 2 * sum(p * q for p, q in zip(one, other, strict=True)) for other in f]
        ordered = sorted(max(0.0, value) for value in far)
        bound = ordered[m] + 1e-10
        room = m * bound - sum(ordered[:m])
        table.append([max(0.0, bound - value) / room for value in far])
    return table


def slow_contrast(g: list[list[float]], f: list[list[float]], m: int, tau: float) -> float:
    b, u, p = len(g), [*g, *f], slow_shares(f, m)
    total = 0.0
    for a, row in enumerate(u):
        products = [sum(x * y for x, y in zip(row, other, strict=True)) / tau for other in u]
        positive = products[(a + b) % (2 * b)]
        negatives = [
            math.exp((1 - p[a % b][c % b]) * products[c]) for c in range(2 * b) if c % b != a % b
        ]
        total += math.log(math.exp(positive) + sum(negatives)) - positive
    return total / (2 * b)


@pytest.mark.parametrize("widths", [(5,), (5, 4), (5, 4, 6)])
@pytest.mark.parametrize("m", [2, 4])
def test_the_loss_is_the_definition_by_plain_loops(widths: tuple[int, ...], m: int) -> None:
    made, xs = networks(widths).double().train(), drawn(9, widths)
    terms = ACCMVC(neighbours=m, temperature=0.4).loss(made, xs)
    hs = made.encode(xs)
    f = made.fuse(hs).tolist()
    contrast = [slow_contrast(g.tolist(), f, m, 0.4) for g in made.project(hs)]
    errors = []
    for x, x_hat in zip(xs, made.decode(hs), strict=True):
        entries = zip(x.flatten().tolist(), x_hat.flatten().tolist(), strict=True)
        errors.append(sum((p - q) ** 2 for p, q in entries) / x.numel())
    assert terms.parts["contrast"].tolist() == pytest.approx(contrast)
    assert terms.parts["reconstruction"].tolist() == pytest.approx(errors)
    assert terms.total.item() == pytest.approx(sum(contrast) + sum(errors))


def test_the_loss_has_right_gradients() -> None:
    made = networks().double().train()
    xs = [x.requires_grad_() for x in drawn(8)]
    model = ACCMVC(neighbours=3)
    kept = torch.linspace(0, 2, 64, dtype=torch.float64).reshape(8, 8)
    assert torch.autograd.gradcheck(lambda *xs: model.loss(made, xs, kept).total, xs)
    parameters = dict(made.named_parameters())
    model.loss(made, xs, kept).total.backward()
    for name in ("to_anchors.0.weight", "common.0.bias", "autoencoders.1.encoder.0.weight"):
        parameter, step = parameters[name], 1e-6
        values = []
        for sign in (1, -1):
            with torch.no_grad():
                parameter.view(-1)[1] += sign * step
                values.append(model.loss(made, xs, kept).total.item())
                parameter.view(-1)[1] -= sign * step
        assert parameter.grad is not None
        slope = (values[0] - values[1]) / (2 * step)
        assert parameter.grad.view(-1)[1].item() == pytest.approx(slope, rel=1e-5, abs=1e-8)


def test_gradients_flow_through_the_shares_of_the_neighbours() -> None:
    f = nn.functional.normalize(drawn(12)[0], dim=1).requires_grad_()
    g = nn.functional.normalize(drawn(12, seed=1)[0], dim=1)
    shares = ACCMVC(neighbours=3)._shares(f)
    damped_infonce([g, f.detach()], [(0, 1)], 0.5, shares).mean().backward()
    assert f.grad is not None
    assert f.grad.abs().max() > 1e-4


@pytest.mark.parametrize(("b", "m"), [(1, 0), (2, 1), (5, 4), (11, 10), (12, 10)])
def test_a_batch_has_as_many_neighbours_as_it_can(b: int, m: int) -> None:
    f = nn.functional.normalize(drawn(b)[0], dim=1)
    shares = ACCMVC()._shares(f)
    assert shares.shape == (b, b)
    assert (shares > 1e-6).sum(1).tolist() == [m] * b


def test_samples_that_coincide_stay_finite() -> None:
    made = networks().double().train()
    xs = [x[:1].repeat(15, 1) for x in drawn(1)]
    terms = ACCMVC().loss(made, xs)
    terms.total.backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in made.parameters())


@pytest.mark.parametrize(("guard", "bounded"), [(1e-10, False), (1e-6, True)])
def test_the_guard_bounds_gradients_of_samples_that_nearly_coincide(
    guard: float, bounded: bool
) -> None:
    near = 1 + 1e-6 * drawn(15)[0]
    f = nn.functional.normalize(near, dim=1).requires_grad_()
    (ACCMVC(guard=guard)._shares(f) * drawn(15, (15,), 1)[0]).sum().backward()
    assert f.grad is not None
    assert (f.grad.abs().max() < 10) == bounded


def test_a_step_has_a_path_on_another_device() -> None:
    with torch.device("meta"):
        made = networks().train()
        xs = [torch.empty(15, d) for d in (5, 4)]
        ACCMVC().loss(made, xs, torch.empty(15, 8)).total.backward()
    assert all(p.grad is not None and p.grad.shape == p.shape for p in made.parameters())


# -- the schedule ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "sizes"), [(70, [32, 32]), (64, [32, 32]), (20, [20])])
def test_a_short_last_batch_is_left_out_in_both_phases(
    n: int, sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, list[int]] = {"pretrain": [], "contrast": []}
    original = Trainer._step

    def watched(self: Trainer, phase: Any, batch: Any, *args: Any, **how: Any) -> None:
        seen[phase.name].append(len(batch))
        original(self, phase, batch, *args, **how)

    monkeypatch.setattr(Trainer, "_step", watched)
    fitted(easy(0, n=n))
    assert seen == {"pretrain": sizes * 2, "contrast": sizes * 3}


def test_one_optimiser_serves_both_phases(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[torch.optim.Optimizer] = []
    original = Trainer._new_optimiser

    def watched(self: Trainer) -> torch.optim.Optimizer:
        made.append(original(self))
        return made[-1]

    monkeypatch.setattr(Trainer, "_new_optimiser", watched)
    fitted(easy(0))
    (optimiser,) = made
    (group,) = optimiser.param_groups
    assert isinstance(optimiser, torch.optim.Adam)
    assert (group["lr"], group["weight_decay"], group["betas"]) == (3e-3, 0, (0.9, 0.999))
    steps = {int(state["step"]) for state in optimiser.state.values()}
    assert steps == {2 * 3, 2 * 5}  # heads and anchors join in the second phase


def test_pretraining_leaves_heads_and_anchors_as_they_were_drawn() -> None:
    drawn_, learnt = (
        fitted(easy(0), epochs=0, pretrain_epochs=epochs).networks_.state_dict()
        for epochs in (0, 2)
    )
    same = {name for name in drawn_ if torch.equal(drawn_[name], learnt[name])}
    assert same == {name for name in drawn_ if not name.startswith("autoencoders")}


@pytest.mark.parametrize(("epochs", "active"), [(1, 1), (2, 2), (None, 3), (0, 0)])
def test_dropout_is_on_in_the_first_contrastive_epochs(
    epochs: int | None, active: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[Tensor | None] = []
    original = AnchorNetworks.fuse

    def watched(self: AnchorNetworks, hs: Any, factors: Tensor | None = None) -> Tensor:
        if self.training:
            kept.append(factors)
        return original(self, hs, factors)

    monkeypatch.setattr(AnchorNetworks, "fuse", watched)
    fitted(easy(0), dropout_epochs=epochs, dropout=0.25)
    assert [factors is not None for factors in kept] == [True] * 2 * active + [False] * (
        2 * (3 - active)
    )
    for factors in kept[: 2 * active]:
        assert factors is not None
        assert factors.shape == (32, 3 * 16)
        assert sorted(set(factors.flatten().tolist())) == pytest.approx([0, 4 / 3])
        assert (factors == 0).double().mean().item() == pytest.approx(0.25, abs=0.05)
    if active > 1:
        assert not torch.equal(*kept[:2])  # type: ignore[arg-type]


def test_the_history_has_both_phases_and_the_parts_by_view() -> None:
    model = fitted(easy(0))
    assert [(r["phase"], r["epoch"]) for r in model.history_] == [
        *(("pretrain", e) for e in (1, 2)),
        *(("contrast", e) for e in (1, 2, 3)),
    ]
    for record in model.history_:
        parts = [record["reconstruction"]]
        if record["phase"] == "contrast":
            parts.append(record["contrast"])
        assert [len(part) for part in parts] == [3] * len(parts)
        assert record["loss"] == pytest.approx(sum(map(sum, parts)), rel=1e-5)


# -- what comes out --------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_it_finds_clear_clusters(seed: int) -> None:
    data = easy(seed, n=120)
    assert adjusted_rand_score(data.labels, fitted(data, seed, **LONG).labels_) > 0.9


@pytest.mark.parametrize("seed", SEEDS)
def test_it_beats_its_own_untrained_networks(seed: int) -> None:
    data = make_multiview(120, 3, widths=(20, 20), noise=0.3, nonlinear=1.0, random_state=seed)
    raw = SMALL | {"pretrain_epochs": 0, "epochs": 0}
    trained, untrained = (
        adjusted_rand_score(data.labels, fitted(data, seed, **settings).labels_)
        for settings in (LONG, raw)
    )
    assert trained > untrained + 0.1


def test_the_same_seed_gives_the_same_bytes_and_another_does_not() -> None:
    one, two, other = (fitted(easy(1), seed) for seed in (3, 3, 4))
    assert one.embedding_.tobytes() == two.embedding_.tobytes()
    assert one.labels_.tobytes() == two.labels_.tobytes()
    assert one.embedding_.tobytes() != other.embedding_.tobytes()


def test_the_order_of_named_views_changes_the_result_by_rounding_only() -> None:
    data = easy(2)
    turned = fitted(data.select(tuple(reversed(data.names))))
    np.testing.assert_allclose(fitted(data).embedding_, turned.embedding_, atol=1e-3)


def test_half_precision_comes_close() -> None:
    data = easy(0, n=64)
    full, half = (fitted(data, precision=p) for p in ("fp32", "bf16"))
    assert not np.array_equal(full.embedding_, half.embedding_)
    for one, other in zip(full.history_, half.history_, strict=True):
        assert other["loss"] == pytest.approx(one["loss"], rel=0.02)
    np.testing.assert_allclose(full.embedding_, half.embedding_, atol=0.1)


def test_the_features_are_the_common_ones_and_the_labels_their_k_means() -> None:
    data = easy(0)
    model = fitted(data, **LONG)
    assert model.embedding_.shape == (70, 16)
    np.testing.assert_allclose(np.linalg.norm(model.embedding_, axis=1), 1.0, atol=1e-6)
    assert list(model.get_feature_names_out()[[0, 15]]) == ["accmvc_0", "accmvc_15"]
    reference = KMeans(3, n_init=10, random_state=0).fit(model.embedding_)
    assert model.inertia_ <= reference.inertia_ * 1.001
    assert adjusted_rand_score(reference.labels_, model.labels_) == 1.0


def test_predict_and_transform_agree_with_the_fit_for_samples_alone_and_among_others() -> None:
    data = easy(0)
    model = fitted(data)
    assert_array_equal(model.predict(data), model.labels_)
    assert_array_equal(model.transform(data), model.embedding_)
    turned = np.arange(70)[::-1]
    assert_array_equal(model.predict(data.take(turned)), model.labels_[turned])
    alone = np.vstack([model.transform(data.take([i])) for i in (0, 23, 69)])
    assert_array_equal(alone, model.embedding_[[0, 23, 69]])


def test_new_samples_go_to_the_clusters_of_their_kind() -> None:
    data = easy(0, n=160)
    model = fitted(data.take(range(100)), **LONG)
    new = data.take(range(100, 160))
    assert adjusted_rand_score(new.labels, model.predict(new)) > 0.85


def test_a_saved_model_predicts_the_same(tmp_path: Path) -> None:
    data = easy(0)
    model = fitted(data)
    save_model(model, tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert isinstance(again, ACCMVC)
    assert_array_equal(again.predict(data), model.labels_)
    assert_array_equal(again.transform(data), model.embedding_)


def bytes_of(model: ACCMVC, folder: Path) -> bytes:
    save_model(model, folder)
    content = [(folder / name).read_bytes() for name in ("model.json", "model.safetensors")]
    return b"".join(content) + model.embedding_.tobytes()


@pytest.mark.parametrize("step", [2, 3, 5, 6, 7, 10])
def test_broken_between_two_steps_it_ends_in_the_same_bytes(
    tmp_path: Path, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two batches an epoch, two epochs before the contrast: steps 5 and 6 have dropout."""
    whole = fitted(easy(0))
    model = ACCMVC(3, **SMALL, random_state=0)
    steps, original = [0], Trainer._step

    def counted(self: Trainer, *args: Any, **how: Any) -> None:
        steps[0] += 1
        if steps[0] == step:
            raise KeyboardInterrupt
        original(self, *args, **how)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_step", counted)
        with pytest.raises(KeyboardInterrupt):
            model.fit(easy(0), checkpoint=Checkpoints(tmp_path / "c", every=0))
    model.fit(easy(0), checkpoint=tmp_path / "c")
    assert bytes_of(model, tmp_path / "a") == bytes_of(whole, tmp_path / "b")


# -- settings and shapes at the edge ---------------------------------------------------------------

CHANGES: dict[str, Any] = {
    "temperature": 1.0,
    "anchors": 4,
    "neighbours": 3,
    "guard": 1.0,
    "dropout": 0.5,
    "dropout_epochs": None,
    "encoder": (20,),
    "decoder": (5, 6),
    "latent": 12,
    "embedding": 6,
    "pretrain_epochs": 1,
    "epochs": 2,
    "batch_size": 20,
    "learning_rate": 1e-3,
    "scaling": "standard",
    "precision": "bf16",
    "random_state": 1,
}
OTHERS = {"n_clusters", "n_init", "memory_budget", "device", "threads"}


def test_every_setting_is_looked_at() -> None:
    assert set(CHANGES) | OTHERS == set(ACCMVC().get_params())


@pytest.mark.parametrize("name", CHANGES)
def test_every_setting_has_an_effect(name: str) -> None:
    data = easy(0)
    one, two = (fitted(data, **how).embedding_ for how in ({}, {name: CHANGES[name]}))
    assert one.shape != two.shape or not np.allclose(one, two, atol=1e-5)


@pytest.mark.parametrize("dropout", [1.0, -0.1])
def test_a_share_of_dropout_beyond_its_bounds_is_refused(dropout: float) -> None:
    with pytest.raises(SettingError, match="dropout is"):
        fitted(easy(0), dropout=dropout)


@pytest.mark.parametrize("n_views", [1, 2, 3])
@pytest.mark.parametrize(("n", "batch"), [(10, 256), (33, 32), (7, 1), (5, 2)])
def test_any_number_of_views_and_any_size_of_batch(n_views: int, n: int, batch: int) -> None:
    data = make_multiview(n, 3, widths=(6,) * n_views, random_state=0)
    model = fitted(data, batch_size=batch)
    assert model.embedding_.shape == (n, 16)
    assert np.isfinite(model.embedding_).all()
    assert_array_equal(model.predict(data), model.labels_)


def test_a_single_view_learns_too() -> None:
    data = make_multiview(70, 3, widths=(12,), noise=0.1, random_state=0)
    assert adjusted_rand_score(data.labels, fitted(data, **LONG).labels_) > 0.8


def test_constant_columns_whole_numbers_and_copies_are_no_obstacle() -> None:
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 9, (40, 5))
    counts[:, 2] = 3
    real = rng.normal(size=(40, 3))
    counts[20:], real[20:] = counts[0], real[0]  # more copies than neighbours
    model = fitted(MultiView({"counts": counts, "real": real}))
    assert np.isfinite(model.embedding_).all()
    assert len(set(model.labels_[20:])) == 1


def test_data_read_by_batches_are_learnt_from_too() -> None:
    data = easy(0)
    model = fitted(data, memory_budget=1e-6)
    assert model.embedding_ is None
    assert_array_equal(model.predict(data), model.labels_)


def test_defaults_are_those_of_the_reference() -> None:
    known = {
        "temperature": 0.5, "anchors": 64, "neighbours": 10, "guard": 1e-10, "dropout": 0.1,
        "dropout_epochs": 1, "encoder": (500, 500, 2000), "decoder": None, "latent": 512,
        "embedding": 128, "pretrain_epochs": 200, "epochs": 50, "batch_size": 256,
        "learning_rate": 3e-4, "scaling": "minmax",
    }  # fmt: skip
    assert {name: ACCMVC().get_params()[name] for name in known} == known
    assert ACCMVC()._total_epochs() == 250


def test_recipes_have_round_numbers_of_epochs() -> None:
    found = recipes("accmvc")
    assert {recipe.settings["epochs"] for recipe in found.values()} == {50, 100, 200, 300}
    assert "58" in found["ngs"].origin
    assert found["caltech5v7"].settings == {"epochs": 200}
    assert found["bdgp"].settings == {"epochs": 100, "scaling": "none"}
