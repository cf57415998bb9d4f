"""SEM: its losses, its weights, its schedule."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from sklearn.cluster import KMeans
from sklearn.metrics import normalized_mutual_info_score
from torch import Tensor
from torch.nn import functional

from dwcl import MultiView, make_multiview
from dwcl.methods import sem
from dwcl.methods.sem import SEM
from dwcl.nn import ViewNetworks, with_noise
from dwcl.storage.descriptions import PairWeight
from dwcl.streams import RandomStreams
from dwcl.training.batches import Batch, InMemory
from dwcl.training.callbacks import Record
from dwcl.training.loop import Trainer
from dwcl.views import Pair, every_pair, jsd, mmd

LOSSES = ("infonce", "pscl", "rince")
# JSD takes the least time of the measures; what is particular to one is tried with that one.
SHORT: dict[str, Any] = {"pretrain_epochs": 3, "epochs": 2, "batch_size": 16, "measure": "jsd"}


def easy(seed: int, n: int = 60, widths: tuple[int, ...] = (10, 12, 8)) -> MultiView:
    return make_multiview(n, 3, widths=widths, noise=0.1, random_state=seed)


def records(model: SEM, event: str) -> list[dict[str, Any]]:
    return [record for record in model.history_ if record["event"] == event]


def fitted(small: dict[str, Any], data: MultiView | None = None, **settings: Any) -> SEM:
    chosen = small | SHORT | {"random_state": 0} | settings
    return SEM(3, **chosen).fit(easy(0) if data is None else data)


def networks(widths: Sequence[int], seed: int = 0) -> ViewNetworks:
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
    others = [x.flip(1) + 1 for x in batch.views]
    clean, corrupted = (
        model.contrast(made, [Pair(0, 1, 2, 1.0)], torch.ones(1), change, batch).parts
        for change in (None, lambda views: others)
    )
    torch.testing.assert_close(corrupted["contrast"], clean["contrast"], rtol=1e-12, atol=0)
    for v, (x, other) in enumerate(zip(batch.views, others, strict=True)):
        ae = made.each()[v]
        expected = functional.mse_loss(ae.decoder(ae.encoder(other)), x)  # the aim is the clean one
        torch.testing.assert_close(corrupted["reconstruction"][v], expected)
    assert not torch.allclose(corrupted["reconstruction"], clean["reconstruction"])


def test_the_temperature_is_that_of_the_loss() -> None:
    drawn = torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(0))
    zs = list(functional.normalize(drawn, dim=2))
    for loss, default in (("infonce", 1.0), ("rince", 0.5)):
        found, same, other = (
            SEM(2, loss=loss, temperature=temperature)._by_pair(zs, [(0, 1)])
            for temperature in (None, default, 0.3)
        )
        assert torch.equal(found, same)
        assert not torch.allclose(found, other)


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


@pytest.mark.parametrize("loss", LOSSES)
def test_one_sample_leaves_attraction_alone(loss: str) -> None:
    zs = [torch.tensor([[1.0, 0.0]]).requires_grad_(), torch.tensor([[0.6, 0.8]]).requires_grad_()]
    found = SEM(2, loss=loss)._by_pair(zs, [(0, 1)])
    found.sum().backward()
    slope = zs[0].grad
    assert slope is not None
    assert slope.isfinite().all()
    if loss == "infonce":
        assert found.abs().max() + slope.abs().max() < 1e-6
    else:
        assert (slope * zs[1]).sum() < 0  # towards the partner


# -- weights ---------------------------------------------------------------------------------------


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
    assert found[0]["pairs"][0]["weight"] == pytest.approx(1 if measure == "mmd" else math.e - 1)
    assert model.pair_weights_ == found[-1]["pairs"]
    assert all(PairWeight.model_validate(pair) for pair in model.pair_weights_)


@pytest.mark.parametrize(("measure", "function"), [("jsd", jsd), ("mmd", mmd)])
def test_the_last_weights_are_those_of_the_final_features(
    small: dict[str, Any], measure: str, function: Any
) -> None:
    model = fitted(small, measure=measure)
    parts = [torch.from_numpy(part) for part in np.split(model.embedding_, 3, axis=1)]
    values = records(model, "weights")[-1]["values"]
    for v, w in ((0, 2), (1, 2)):
        assert values[v][w] == pytest.approx(function(parts[v], parts[w]), rel=1e-12)


def test_cmi_is_that_of_the_views_own_clusters(small: dict[str, Any]) -> None:
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
    assert [heads for _, heads in counts[:3]] == [0, 0, 4]  # which reconstruction does not touch
    assert len(steps) == model._total_epochs()


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
