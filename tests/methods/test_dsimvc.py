"""DSIMVC: views that are missing, neighbours that fill them in, and weights that look ahead."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from sklearn.metrics import adjusted_rand_score
from torch import Tensor, nn
from torch.func import functional_call

from dwcl import Checkpoints, MultiView, load_model, make_multiview, save_model
from dwcl.data.synthetic import drop_views
from dwcl.errors import DataError
from dwcl.methods.dsimvc import DSIMVC, _pairs
from dwcl.streams import RandomStreams
from dwcl.training.batches import Batch
from dwcl.training.loop import Trainer

SEEDS = (0, 1, 2)
SMALL: dict[str, Any] = {
    "encoder": (32,),
    "latent": 16,
    "features": 8,
    "pretrain_epochs": 10,
    "neighbour_pretrain_epochs": 10,
    "neighbour_epochs": 10,
    "steps": 150,
    "batch_size": 32,
    "learning_rate": 5e-3,
    "threads": 1,
    "precision": "fp32",
}
SHORT = SMALL | {
    "pretrain_epochs": 2,
    "neighbour_pretrain_epochs": 2,
    "neighbour_epochs": 2,
    "steps": 14,
    "batch_size": 16,
}


def easy(seed: int, n: int = 100, k: int = 3, n_views: int = 3, lost: float = 0.0) -> MultiView:
    noise = (0.05, 0.2, 0.3)[:n_views]
    data = make_multiview(n, k, widths=(10, 12, 8)[:n_views], noise=noise, random_state=seed)
    return drop_views(data, lost, seed) if lost else data


def networks_of(model: DSIMVC, widths: tuple[int, ...], seed: int = 0) -> Any:
    streams = RandomStreams(seed)
    return model._build(widths, [streams.torch(str(v)) for v in range(len(widths))])


def count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def state_of(module: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in module.state_dict().items()}


def moved(before: dict[str, Tensor], after: dict[str, Tensor]) -> set[str]:
    return {name for name in before if not torch.equal(before[name], after[name])}


# -- networks --------------------------------------------------------------------------------------


def test_the_reference_s_networks_have_the_known_sizes() -> None:
    made = networks_of(DSIMVC(5), (1750, 79))
    for model in (made.clustering, made.neighbours):
        assert count(model.autoencoders[1].encoder) == 2_317_012
        assert count(model.features) == 328_320
        assert count(model.labels) == 265_221
        widths = [layer.out_features for layer in model.autoencoders[1].decoder[::2]]
        assert widths == [2000, 500, 500, 79]
    assert count(made.weighting) == 701
    assert not torch.equal(made.clustering.labels[0].weight, made.neighbours.labels[0].weight)


# -- the loss --------------------------------------------------------------------------------------


def plain_forward(made: Any, xs: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    def through(layers: Any, x: Tensor) -> Tensor:
        for layer in layers:
            x = layer(x)
        return x

    model = made.clustering
    codes = [through(model.autoencoders[v].encoder, x) for v, x in enumerate(xs)]
    hs = [through(model.features, z) for z in codes]
    return hs, [through(model.labels, z).softmax(1) for z in codes]


def plain_features(h: Tensor, other: Tensor) -> list[Tensor]:
    """Give the losses of the samples, whose sum is that of the pair."""
    root = math.sqrt(3)
    h, other = (
        torch.stack([row * root / row.norm() if row.norm() >= root else row for row in rows])
        for rows in (h, other)
    )
    b = len(h)
    return [
        -2 / b * (h[i] @ other[i])
        + sum((h[i] @ other[j]) ** 2 for j in range(b) if j != i) / (b * (b - 1))
        for i in range(b)
    ]


def plain_labels(q: Tensor, other: Tensor) -> Tensor:
    k = q.shape[1]
    columns = [*q.T, *other.T]

    def similar(a: int, c: int) -> Tensor:
        return columns[a] @ columns[c] / (columns[a].norm() * columns[c].norm())

    total = torch.zeros((), dtype=q.dtype)
    for a in range(2 * k):
        own = range(k) if a < k else range(k, 2 * k)
        positive = similar(a, (a + k) % (2 * k))
        negatives = sum(similar(a, c).exp() for c in own if c != a)
        total = total + (positive.exp() + negatives).log() - positive
    uneven = torch.zeros((), dtype=q.dtype)
    for shares in (q, other):
        p = shares.sum(0) / shares.sum()
        uneven = uneven + math.log(k) + (p * p.log()).sum()
    return total / (2 * k) + uneven


def plain_complete(hs: list[Tensor], qs: list[Tensor]) -> Tensor:
    pairs = [(v, w) for v in range(len(hs)) for w in range(v + 1, len(hs))]
    return sum(  # type: ignore[return-value]
        sum(plain_features(hs[v], hs[w])) + plain_labels(qs[v], qs[w]) for v, w in pairs
    )


def plain_weights(made: Any, qs: list[Tensor]) -> Tensor:
    x = sum(qs) / len(qs)
    for layer in made.weighting:
        x = layer(x)
    return x.sigmoid().squeeze(1)  # type: ignore[union-attr]


def plain_filled(hs: list[Tensor], qs: list[Tensor], u: Tensor) -> Tensor:
    pairs = [(v, w) for v in range(len(hs)) for w in range(v + 1, len(hs))]
    total = torch.zeros((), dtype=u.dtype)
    for v, w in pairs:
        losses = plain_features(hs[v], hs[w])
        total = total + sum(loss * weight for loss, weight in zip(losses, u, strict=True)) / u.sum()
        total = total + plain_labels(qs[v], qs[w]) * u.sum() / u.sum()
    return total


def problem(
    seed: int, **settings: Any
) -> tuple[DSIMVC, Any, Batch, list[Tensor], list[Tensor], torch.optim.Optimizer]:
    """Networks in float64, 6 complete samples, 5 filled ones, and an optimiser of the weights."""
    model = DSIMVC(3, **(SMALL | settings))
    made = networks_of(model, (10, 12, 8), seed).double()
    generator = torch.Generator().manual_seed(seed)
    views = [3 * torch.rand(11, d, generator=generator, dtype=torch.float64) for d in (10, 12, 8)]
    with torch.no_grad():  # some features on each side of the length that is shortened
        made.clustering.features[2].weight.mul_(9)
        made.weighting[2].weight.mul_(5)
    optimiser = torch.optim.Adam(made.weighting.parameters(), lr=4e-4)
    batch = Batch(views, torch.arange(11))
    return model, made, batch, [x[:6] for x in views], [x[6:] for x in views], optimiser


@pytest.mark.parametrize("seed", SEEDS)
def test_a_step_has_the_plain_loss_and_its_gradients(seed: int) -> None:
    model, made, batch, complete, filled, optimiser = problem(seed)
    terms = model.step(made, optimiser, 6, batch)  # the weights have learnt before
    hs, qs = plain_forward(made, complete)
    hs_filled, qs_filled = plain_forward(made, filled)
    lengths = torch.cat(hs).norm(dim=1)
    assert lengths.min() < math.sqrt(3) < lengths.max()
    u = plain_weights(made, qs_filled).detach()
    expected = plain_complete(hs, qs) + plain_filled(hs_filled, qs_filled, u)
    torch.testing.assert_close(terms.total, expected)
    assert terms.parts["weight"].item() == pytest.approx(u.mean().item())
    assert sum(part.sum() for name, part in terms.parts.items() if name != "weight").item() == (
        pytest.approx(expected.item())
    )
    theta = list(made.clustering.without_decoders().values())
    ours = torch.autograd.grad(terms.total, theta, retain_graph=True)
    for one, other in zip(ours, torch.autograd.grad(expected, theta), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-9)
    phi = list(made.weighting.parameters())
    assert torch.autograd.grad(terms.total, phi, allow_unused=True) == (None,) * len(phi)


@pytest.mark.parametrize("seed", SEEDS)
def test_weights_learn_by_the_loss_on_complete_samples_after_a_step(seed: int) -> None:
    """Against a graph through the whole step, u depending on θ as well as on φ."""
    model, made, batch, complete, filled, optimiser = problem(seed, look_ahead=0.05)
    twin = copy.deepcopy(made).eval()
    before = state_of(made)
    model.learn_weights(made, optimiser, 6, batch)
    assert moved(before, made.state_dict()) == {n for n in before if n.startswith("weighting.")}
    assert made.training
    assert all(parameter.grad is None for parameter in made.parameters())

    theta = twin.clustering.without_decoders()
    hs, qs = plain_forward(twin, complete)
    hs_filled, qs_filled = plain_forward(twin, filled)
    inner = plain_complete(hs, qs)
    inner = inner + plain_filled(hs_filled, qs_filled, plain_weights(twin, qs_filled))
    slopes = torch.autograd.grad(inner, list(theta.values()), create_graph=True)
    pairs = zip(theta.items(), slopes, strict=True)
    ahead = {name: value - 0.05 * slope for (name, value), slope in pairs}
    plain_complete(*functional_call(twin.clustering, ahead, (complete,))).backward()
    plain = torch.optim.Adam(twin.weighting.parameters(), lr=4e-4)
    plain.step()
    assert moved(before, twin.state_dict()) == {n for n in before if n.startswith("weighting.")}
    # Adam's first step is as long for any gradient; a second one tells them apart.
    for one, other in zip(optimiser.state.values(), plain.state.values(), strict=True):
        torch.testing.assert_close(one["exp_avg"], other["exp_avg"], rtol=1e-6, atol=1e-16)
    for one, other in zip(made.weighting.parameters(), twin.weighting.parameters(), strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=0)


def test_the_graph_of_the_weights_goes_through_the_assignments_too() -> None:
    """Were u cut off from θ in the look-ahead, φ would learn something else."""
    model, made, batch, complete, filled, optimiser = problem(0)
    model.learn_weights(made, optimiser, 6, batch)
    twin = networks_of(model, (10, 12, 8), 0).double().eval()
    twin.load_state_dict(problem(0)[1].state_dict())
    theta = twin.clustering.without_decoders()
    hs, qs = plain_forward(twin, filled)
    u = plain_weights(twin, [q.detach() for q in qs])
    inner = plain_filled(hs, qs, u) + plain_complete(*plain_forward(twin, complete))
    slopes = torch.autograd.grad(inner, list(theta.values()), create_graph=True)
    pairs = zip(theta.items(), slopes, strict=True)
    ahead = {name: value - 1e-3 * slope for (name, value), slope in pairs}
    then = plain_complete(*functional_call(twin.clustering, ahead, (complete,)))
    (cut, *_) = torch.autograd.grad(then, list(twin.weighting.parameters()))
    first = next(iter(optimiser.state.values()))["exp_avg"] / 0.1  # the gradient it was made of
    assert (first - cut).abs().max() > 1e-3 * first.abs().max()


def test_with_equal_weights_filled_features_are_a_share_of_the_others() -> None:
    model, made, _, _, filled, _ = problem(0)
    hs, qs = made.clustering(filled)
    whole = model._complete(hs, qs).parts["contrast"]
    for value in (0.1, 0.9):
        weights = torch.full((5,), value, dtype=torch.float64)
        torch.testing.assert_close(model._weighted(hs, weights), whole / 5)
    in_full = DSIMVC(3, **SMALL, filled_features="mean")
    torch.testing.assert_close(in_full._weighted(hs, weights), whole)
    none = torch.zeros(5, dtype=torch.float64)
    assert model._weighted(hs, none).tolist() == [0.0] * 3  # nothing is divided by their sum, 0


def test_weights_never_touch_the_labels_of_filled_samples() -> None:
    model, made, batch, _, _, optimiser = problem(0)
    found = []
    for bias in (-3.0, 3.0):
        with torch.no_grad():
            made.weighting[2].bias.fill_(bias)
        terms = model.step(made, optimiser, 6, batch)
        labels = list(made.clustering.labels.parameters())
        found.append((terms.parts["filled_clusters"], torch.autograd.grad(terms.total, labels)))
    torch.testing.assert_close(found[0], found[1])
    assert terms.parts["weight"] > 0.8


def test_neighbours_learn_with_features_of_length_one() -> None:
    model, made, batch, *_ = problem(0)
    hs, qs = made.neighbours(batch.views)
    unit = [h / h.norm(dim=1, keepdim=True) for h in hs]
    torch.testing.assert_close(
        model.contrast(made.neighbours, batch).total, plain_complete(unit, qs)
    )


def test_a_single_view_is_its_own_partner() -> None:
    assert [_pairs(n) for n in (1, 2, 3)] == [[(0, 0)], [(0, 1)], [(0, 1), (0, 2), (1, 2)]]


# -- how it learns ---------------------------------------------------------------------------------


class Watch:
    """Keeps the state of the networks after each step, and what was in its batch."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.phases: list[str] = []
        self.states: list[dict[str, Tensor]] = []
        self.batches: list[Batch] = []
        self.adam: list[set[float]] = []
        original = Trainer._step

        def step(trainer: Trainer, phase: Any, batch: Batch, *rest: Any, **how: Any) -> None:
            if not self.states:
                self.states.append(state_of(trainer.networks))
            original(trainer, phase, batch, *rest, **how)
            self.phases.append(phase.name)
            self.batches.append(batch)
            self.states.append(state_of(trainer.networks))
            moments = trainer._optimisers["main"].state.values()
            self.adam.append({float(state["step"]) for state in moments})

        monkeypatch.setattr(Trainer, "_step", step)

    def of(self, phase: str) -> range:
        places = [i for i, name in enumerate(self.phases) if name == phase]
        return range(places[0], places[-1] + 1)


def test_the_phases_learn_what_is_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Watch(monkeypatch)
    data = easy(0, lost=0.3)
    model = DSIMVC(3, **SHORT, random_state=0).fit(data)
    epochs = [(r["phase"], r["epoch"]) for r in model.history_]
    names = ("pretrain", "neighbours-pretrain", "neighbours", "cluster")
    assert epochs == [(name, epoch) for name in names for epoch in (1, 2)]
    # 70 complete samples in batches of 16; the short one is dropped where clusters are contrasted
    assert [len(seen.of(name)) for name in names] == [10, 10, 8, 14]
    assert [len(seen.batches[i]) for i in seen.of("pretrain")] == [16, 16, 16, 16, 6] * 2
    assert [len(seen.batches[i]) for i in seen.of("neighbours")] == [16] * 8
    assert [len(seen.batches[i]) for i in seen.of("cluster")] == [32] * 14
    parts = {
        "pretrain": {"clustering.autoencoders"},
        "neighbours-pretrain": {"neighbours.autoencoders"},
        "neighbours": {"neighbours.autoencoders", "neighbours.features", "neighbours.labels"},
        "cluster": {"clustering.autoencoders", "clustering.features", "clustering.labels"}
        | {"weighting.0", "weighting.2"},
    }
    for name in names:
        steps = seen.of(name)
        changed = moved(seen.states[steps[0]], seen.states[steps[-1] + 1])
        assert {".".join(key.split(".")[:2]) for key in changed} == parts[name]
        decoders = {key for key in changed if ".decoder." in key}
        assert bool(decoders) == name.endswith("pretrain")
    # Adam begins anew after the auto-encoders, goes on for the neighbours, and is new for the rest.
    last = [seen.adam[seen.of(name)[-1]] for name in names]
    assert last == [{10.0}, {10.0}, {18.0, 8.0, 10.0}, {18.0, 8.0, 10.0, 14.0}]
    complete = torch.from_numpy(data.observed.all(1))
    for i in (*seen.of("pretrain"), *seen.of("neighbours")):
        assert complete[seen.batches[i].index].all()
    for i in seen.of("cluster"):
        batch = seen.batches[i]
        assert complete[batch.index].tolist() == [True] * 16 + [False] * 16
        assert all(x.isfinite().all() for x in batch.views)
    assert model.n_complete_ == 70


def test_the_encoders_begin_as_those_of_the_auto_encoders() -> None:
    data = easy(0, lost=0.3)
    none = DSIMVC(3, **(SHORT | {"steps": 0}), random_state=0).fit(data)
    bare = DSIMVC(3, **(SHORT | {"steps": 0, "pretrain_epochs": 0}), random_state=0).fit(data)
    changed = moved(state_of(bare.networks_), state_of(none.networks_))
    assert changed
    assert all(key.startswith("clustering.autoencoders") for key in changed)


def test_complete_data_have_no_neighbours_and_no_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Watch(monkeypatch)
    model = DSIMVC(3, **SHORT, random_state=0).fit(easy(0))
    assert {record["phase"] for record in model.history_} == {"pretrain", "cluster"}
    assert len(model.history_) == 4
    changed = moved(seen.states[0], seen.states[-1])
    assert all(key.startswith("clustering.") for key in changed)
    assert set(model.history_[-1]) >= {"contrast", "clusters"}
    assert "weight" not in model.history_[-1]
    assert model.n_complete_ == 100


def test_filled_rows_are_means_over_observed_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Watch(monkeypatch)
    data = easy(0, lost=0.3, n_views=2)
    model = DSIMVC(3, **SHORT, random_state=0).fit(data)
    scaled = [torch.from_numpy(x) for x in model.scaling_.transform(data)]
    observed = torch.from_numpy(data.observed.copy())
    for i in seen.of("cluster"):
        batch = seen.batches[i]
        for v, x in enumerate(scaled):
            there = observed[batch.index, v]
            assert torch.equal(batch.views[v][there], x[batch.index[there]])
            given = x[observed[:, v] & observed[:, 1 - v]]
            for row in batch.views[v][~there]:
                # The mean of three rows: it lies within the box of those that can be givers.
                assert (row >= given.amin(0) - 1e-6).all()
                assert (row <= given.amax(0) + 1e-6).all()
                assert not (row == x[observed[:, v]]).all(1).any()


# -- what comes out --------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("lost", [0.0, 0.3])
def test_it_finds_clusters_and_beats_its_untrained_networks(seed: int, lost: float) -> None:
    data = easy(seed, lost=lost)
    trained = DSIMVC(3, **SMALL, random_state=seed).fit(data)
    none = dict.fromkeys(("pretrain_epochs", "neighbour_pretrain_epochs", "neighbour_epochs"), 0)
    untrained = DSIMVC(3, **(SMALL | none | {"steps": 0}), random_state=seed).fit(data)
    score = adjusted_rand_score(data.labels, trained.labels_)
    assert score > 0.5
    assert score > adjusted_rand_score(data.labels, untrained.labels_) + 0.2


def test_a_sample_is_judged_by_the_views_that_it_has() -> None:
    data = easy(0, lost=0.3)
    model = DSIMVC(3, **SHORT, random_state=0).fit(data)
    networks: Any = model.networks_
    xs = [torch.from_numpy(x) for x in model.scaling_.transform(data)]
    networks.eval()
    with torch.no_grad():
        hs, qs = networks.clustering([x.nan_to_num(5.0) for x in xs])
    shares, features = model.predict_proba(data), model.transform(data)
    for i, seen in enumerate(data.observed):
        mean = sum(qs[v][i] for v in range(3) if seen[v]) / seen.sum()
        np.testing.assert_allclose(shares[i], mean, atol=1e-6)
        mean = sum(hs[v][i] for v in range(3) if seen[v]) / seen.sum()
        np.testing.assert_allclose(features[i], mean, atol=1e-5)
    one = int(np.flatnonzero(data.observed.sum(1) == 1)[0])
    (view,) = np.flatnonzero(data.observed[one])
    np.testing.assert_allclose(shares[one], qs[view][one], atol=1e-6)


@pytest.mark.parametrize("lost", [0.0, 0.4])
def test_the_same_seed_gives_the_same_bytes_and_another_does_not(lost: float) -> None:
    data = easy(1, lost=lost)
    one, two, other = (DSIMVC(3, **SHORT, random_state=s).fit(data) for s in (3, 3, 4))
    assert one.embedding_.tobytes() == two.embedding_.tobytes()
    assert one.embedding_.tobytes() != other.embedding_.tobytes()


def test_predictions_are_those_of_the_fit_and_of_each_sample_by_itself(tmp_path: Path) -> None:
    data = easy(0, n=110, lost=0.3)
    known, new = data.take(range(90)), data.take(range(90, 110))
    model = DSIMVC(3, **SHORT, random_state=0).fit(known)
    assert_array_equal(model.predict(known), model.labels_)
    assert_array_equal(model.transform(known), model.embedding_)
    assert model.embedding_.shape == (90, 8)
    assert np.isfinite(model.embedding_).all()
    order = np.random.default_rng(0).permutation(20)
    shares = model.predict_proba(new)
    np.testing.assert_allclose(shares.sum(1), 1, rtol=1e-5)
    np.testing.assert_allclose(model.predict_proba(new.take(order)), shares[order], atol=1e-6)
    save_model(model, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert_array_equal(loaded.predict_proba(new), shares)
    assert loaded.n_complete_ == model.n_complete_


def test_a_model_of_complete_data_takes_new_samples_that_lack_views() -> None:
    data = easy(0)
    model = DSIMVC(3, **SHORT, random_state=0).fit(data)
    gappy = drop_views(data, 0.5, 1)
    shares = model.predict_proba(gappy)
    whole = gappy.observed.all(1)
    assert np.isfinite(shares).all()
    np.testing.assert_allclose(shares[whole], model.predict_proba(data)[whole], atol=1e-6)


def test_rounded_products_change_little() -> None:
    data = easy(0, lost=0.3)
    full, rounded = (
        DSIMVC(3, **(SHORT | {"precision": p}), random_state=0).fit(data) for p in ("fp32", "bf16")
    )
    assert not np.array_equal(full.embedding_, rounded.embedding_)
    np.testing.assert_allclose(full.embedding_, rounded.embedding_, atol=0.1)


# -- broken off ------------------------------------------------------------------------------------


class BrokenError(Exception):
    """Stands for a crash."""


@pytest.mark.parametrize("step", [4, 7, 13, 15, 17, 20, 27, 30])
def test_a_run_that_was_broken_off_ends_in_the_same_bytes(
    tmp_path: Path, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, settings = easy(0, n=60, lost=0.3), SHORT | {"random_state": 0}
    whole = DSIMVC(3, **settings).fit(data)
    steps = [0]
    original = Trainer._step

    def counted(self: Trainer, *args: Any, **how: Any) -> None:
        steps[0] += 1
        if steps[0] == step:
            raise BrokenError
        original(self, *args, **how)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_step", counted)
        with pytest.raises(BrokenError):
            DSIMVC(3, **settings).fit(data, checkpoint=Checkpoints(tmp_path, every=0))
    resumed = DSIMVC(3, **settings).fit(data, checkpoint=tmp_path)
    assert not moved(state_of(whole.networks_), state_of(resumed.networks_))
    assert resumed.embedding_.tobytes() == whole.embedding_.tobytes()
    losses = [[r["loss"] for r in model.history_] for model in (whole, resumed)]
    assert losses[0] == losses[1]


# -- shapes at the edge ----------------------------------------------------------------------------


@pytest.mark.parametrize("n_views", [1, 2, 3])
def test_any_number_of_views(n_views: int) -> None:
    data = easy(0, n_views=n_views)
    model = DSIMVC(3, **SMALL, random_state=0).fit(data)
    assert model.embedding_.shape == (100, 8)
    assert len(np.unique(model.labels_)) == 3
    assert adjusted_rand_score(data.labels, model.labels_) > 0.3


@pytest.mark.parametrize(("n", "batch"), [(10, 128), (33, 32), (12, 1), (21, 20)])
@pytest.mark.parametrize("lost", [0.0, 0.4])
def test_any_size_of_batch(n: int, batch: int, lost: float) -> None:
    settings = SHORT | {"batch_size": batch}
    model = DSIMVC(2, **settings, random_state=0).fit(easy(0, n=n, k=2, lost=lost))
    assert np.isfinite(model.embedding_).all()


def test_a_single_cluster() -> None:
    model = DSIMVC(1, **SHORT, random_state=0).fit(easy(0, lost=0.3))
    assert set(model.labels_) == {0}
    assert np.isfinite(model.embedding_).all()


def test_a_constant_column_integers_and_double_precision_are_no_obstacle() -> None:
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 9, (40, 5))
    counts[:, 2] = 3
    real = rng.normal(size=(40, 3))
    real[:6] = np.nan
    model = DSIMVC(2, **SHORT, random_state=0).fit({"counts": counts, "real": real})
    assert np.isfinite(model.embedding_).all()
    assert model.n_complete_ == 34


def test_without_complete_samples_it_cannot_learn() -> None:
    data = easy(0, n=30)
    observed = np.ones((30, 3), dtype=bool)
    observed[1:, 0] = False
    gappy = MultiView(dict(data.views), observed=observed)
    with pytest.raises(DataError, match="1 of 30 samples have every view"):
        DSIMVC(2, **SHORT).fit(gappy)
    two = observed.copy()
    two[1] = True
    model = DSIMVC(2, **SHORT, random_state=0).fit(MultiView(dict(data.views), observed=two))
    assert np.isfinite(model.embedding_).all()


def test_data_that_are_read_by_batches_serve_as_well() -> None:
    data = easy(0, lost=0.3)
    bare = SHORT | {"pretrain_epochs": 0, "steps": 0}
    streamed, whole = (
        DSIMVC(3, **bare, memory_budget=budget, random_state=0).fit(data) for budget in (1e-6, 2.0)
    )
    assert streamed.embedding_ is None
    assert_array_equal(streamed.labels_, whole.labels_)  # of networks that have not learnt
    model = DSIMVC(3, **SHORT, memory_budget=1e-6, random_state=0).fit(data)
    assert not np.array_equal(model.transform(data), whole.embedding_)
    phases = {record["phase"] for record in model.history_}
    assert phases == {"pretrain", "neighbours-pretrain", "neighbours", "cluster"}
