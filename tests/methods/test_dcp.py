"""DCP: its networks, its loss written out, its schedule, and what it puts in place of views."""

from __future__ import annotations

import functools
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from sklearn.metrics import adjusted_rand_score
from torch import Tensor
from torch.nn import functional

from dwcl import Checkpoints, MultiView, load_model, make_multiview, save_model
from dwcl.data.scaling import Scaling
from dwcl.data.synthetic import drop_views
from dwcl.errors import DataError, ModelError, SettingError
from dwcl.losses import mutual_information_loss
from dwcl.methods.dcp import DCP, _Networks, compared, routes
from dwcl.methods.registry import methods
from dwcl.streams import RandomStreams
from dwcl.training import InMemory
from dwcl.training.batches import Batch
from dwcl.training.callbacks import Callback, Record
from dwcl.training.loop import Trainer

WIDTHS = (6, 4, 5)
SMALL: dict[str, Any] = {
    "hidden": (16,),
    "latent": 6,
    "predictor": (12,),
    "epochs": 4,
    "prediction_start": 2,
    "batch_size": 16,
    "learning_rate": 3e-3,
    "n_init": 2,
    "threads": 1,
    "precision": "fp32",
}


@functools.cache
def easy(seed: int = 0, n: int = 50, n_views: int = 3) -> MultiView:
    return make_multiview(n, 3, widths=WIDTHS[:n_views], noise=0.2, random_state=seed)


def gappy(seed: int = 0, n: int = 50, n_views: int = 3, rate: float = 0.4) -> MultiView:
    return drop_views(easy(seed, n, n_views), rate, random_state=seed)


def model(**settings: Any) -> DCP:
    return DCP(3, **({"random_state": 0} | SMALL | settings))


def networks(n_views: int = 3, mode: Any = "core", seed: int = 0) -> _Networks:
    streams = RandomStreams(seed)
    return _Networks(
        WIDTHS[:n_views],
        hidden=(7,),
        latent=4,
        predictor=(5,),
        routes=routes(n_views, mode),
        generators=[streams.torch("networks", str(v)) for v in range(n_views)],
    )


def batch(n_views: int = 3, b: int = 9, dtype: torch.dtype = torch.float32) -> Batch:
    rng = torch.Generator().manual_seed(1)
    views = [torch.rand(b, d, generator=rng, dtype=dtype) for d in WIDTHS[:n_views]]
    return Batch(views, torch.arange(b))


def state_of(fitted: DCP) -> dict[str, Tensor]:
    state: dict[str, Tensor] = fitted.networks_.state_dict()
    return state


# -- networks --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("width", "latent", "auto_encoder", "predictor"),
    [(20, 128, 4_516_028, 166_656), (59, 128, 4_596_017, 166_656), (20, 40, None, 144_040)],
)
def test_the_networks_have_the_reference_s_numbers_of_weights(
    width: int, latent: int, auto_encoder: int | None, predictor: int
) -> None:
    with torch.device("meta"):
        made: Any = DCP(latent=latent)._build([width, 7], [torch.Generator() for _ in range(2)])

    def count(*parts: Any) -> int:
        return sum(p.numel() for part in parts for p in part.parameters())

    if auto_encoder is not None:
        assert count(made.encoders[0], made.decoders[0]) == auto_encoder
    assert [count(each) for each in made.predictors.values()] == [predictor] * 2


@pytest.mark.parametrize("training", [True, False])
def test_codes_and_predictions_are_distributions(training: bool) -> None:
    made = networks().train(training)
    codes = made.encode([10 * x for x in batch().views])
    for h in (*codes, *(made.predict(v, w, codes[v]) for v, w in made.routes)):
        assert (h >= 0).all()
        torch.testing.assert_close(h.sum(1), torch.ones(9))
    assert all((x >= 0).all() for x in made.decode(codes))
    assert any((x == 0).any() for x in made.decode(codes))


def test_who_is_compared_and_who_predicts() -> None:
    assert compared(1, "core")[0] == compared(1, "complete")[0] == routes(1, "core") == []
    assert compared(2, "core") == compared(2, "complete") == ([(0, 1)], 1)
    assert compared(4, "core") == ([(0, 1), (0, 2), (0, 3)], 3)
    assert compared(3, "complete") == ([(0, 1), (0, 2), (1, 2)], 3)
    assert routes(3, "core") == [(0, 1), (1, 0), (0, 2), (2, 0)]
    assert sorted(routes(3, "complete")) == sorted(itertools.permutations(range(3), 2))
    assert routes(1, "complete") == []


# -- loss ------------------------------------------------------------------------------------------


@torch.no_grad()
def slow_loss(method: DCP, made: _Networks, given: Batch, *, predicts: bool) -> float:
    """The formulae, case by case."""
    xs = given.views
    v = len(xs)
    hs = [made.encoders[i](x).softmax(1) for i, x in enumerate(xs)]
    r = sum(float(((made.decoders[i](hs[i]) - xs[i]) ** 2).mean()) for i in range(v))
    if v == 1:
        return method.reconstruction_weight * r

    def info(i: int, j: int) -> float:
        return float(mutual_information_loss(hs, [(i, j)], method.entropy_weight))

    def miss(i: int, j: int) -> float:
        guess = made.predictors[f"{i}-{j}"](hs[i]).softmax(1)
        return float(((guess - hs[j]) ** 2).mean())

    beta = method.side_weight
    if v == 2:
        i_term, d_term, r_term = info(0, 1), miss(0, 1) + miss(1, 0), r
    elif method.mode == "core":
        i_term = (info(0, 1) + beta * sum(info(0, j) for j in range(2, v))) / (v - 1)
        d_term = sum(miss(0, j) + miss(j, 0) for j in range(1, v)) / (v - 1)
        r_term = r / (v - 2)
    else:
        others = [p for p in itertools.combinations(range(v), 2) if p != (0, 1)]
        i_term = (info(0, 1) + beta * sum(info(*p) for p in others)) / v
        d_term = sum(miss(*p) for p in itertools.permutations(range(v), 2)) / v
        r_term = r / (v - 2)
    total = i_term + method.reconstruction_weight * r_term
    return total + method.prediction_weight * d_term * predicts


@pytest.mark.parametrize("mode", ["core", "complete"])
@pytest.mark.parametrize("n_views", [1, 2, 3])
@pytest.mark.parametrize("predicts", [False, True])
@pytest.mark.parametrize("weights", [{}, {"prediction_weight": 3.0, "side_weight": 0.7}])
def test_the_loss_is_that_of_the_formulae(
    mode: str, n_views: int, predicts: bool, weights: dict[str, float]
) -> None:
    method, made = model(mode=mode, **weights), networks(n_views, mode)
    with torch.no_grad():
        found = method.loss(made, batch(n_views), predicts=predicts)
    expected = slow_loss(method, made, batch(n_views), predicts=predicts)
    assert float(found.total) == pytest.approx(expected, rel=1e-5)
    assert set(found.parts) == (
        {"reconstruction"} if n_views == 1 else {"reconstruction", "contrast", "prediction"}
    )


def test_four_views_halve_the_reconstruction() -> None:
    made = _Networks(
        (3, 3, 3, 3), hidden=(5,), latent=4, predictor=(5,), routes=routes(4, "core"),
        generators=[torch.Generator().manual_seed(v) for v in range(4)],
    )  # fmt: skip
    views = [torch.rand(8, 3, generator=torch.Generator().manual_seed(v)) for v in range(4)]
    given = Batch(views, torch.arange(8))
    method = model(reconstruction_weight=1.0)
    with torch.no_grad():
        parts = method.loss(made, given, predicts=False)
    a, b, c = parts.parts["contrast"].tolist()
    expected = (a + 0.1 * b + 0.1 * c) / 3 + float(parts.parts["reconstruction"].sum()) / 2
    assert float(parts.total) == pytest.approx(expected, rel=1e-5)
    assert expected == pytest.approx(slow_loss(method, made, given, predicts=False), rel=1e-5)


@pytest.mark.parametrize("mode", ["core", "complete"])
@pytest.mark.parametrize("n_views", [1, 2, 3])
def test_the_gradient_is_right(mode: str, n_views: int) -> None:
    method, made = model(mode=mode, prediction_weight=5.0), networks(n_views, mode).double()
    xs = [x.requires_grad_() for x in batch(n_views, 5, torch.float64).views]

    def total(*views: Tensor) -> Tensor:
        return method.loss(made, Batch(list(views), torch.arange(5)), predicts=True).total

    assert torch.autograd.gradcheck(total, xs)


def test_prediction_reaches_predictors_and_both_encoders_once_it_counts() -> None:
    method = model(entropy_weight=0.0, reconstruction_weight=0.0)
    grads = {}
    for predicts in (False, True):
        made = networks(2)
        found = method.loss(made, batch(2), predicts=predicts)
        found.total.backward()
        grads[predicts] = [p.grad for p in made.predictors.parameters()]
        assert found.parts["prediction"].requires_grad is predicts
    assert all(grad is None for grad in grads[False])
    assert all(grad is not None for grad in grads[True])
    # By the prediction of one view alone: its own encoder and that of its target.
    made = networks(2)
    both = method.loss(made, batch(2), predicts=True).parts["prediction"]
    grads_of_one = torch.autograd.grad(both[0], list(made.encoders.parameters()))
    half = len(grads_of_one) // 2
    assert all(sum(float(g.abs().sum()) for g in part) > 0
               for part in (grads_of_one[:half], grads_of_one[half:]))  # fmt: skip


# -- schedule --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "phases"),
    [(0, [("prediction", 4)]), (3, [("contrast", 3), ("prediction", 1)]), (9, [("contrast", 4)])],
)
def test_prediction_begins_when_it_should(start: int, phases: list[tuple[str, int]]) -> None:
    fitted = model(prediction_start=start).fit(easy())
    grouped = itertools.groupby(record["phase"] for record in fitted.history_)
    assert [(name, len(list(records))) for name, records in grouped] == phases
    first = fitted.history_[0]
    assert len(first["contrast"]) == 2
    assert len(first["prediction"]) == 4
    assert len(first["reconstruction"]) == 3


def steps_by_epoch(fitted: DCP, data: MultiView, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the batches of the first epoch."""
    sizes: list[int] = []
    original = Trainer._step

    def counted(self: Trainer, phase: Any, given: Batch, *args: Any, **how: Any) -> None:
        sizes.append(len(given))
        original(self, phase, given, *args, **how)

    monkeypatch.setattr(Trainer, "_step", counted)
    fitted.set_params(epochs=1).fit(data)
    return sizes


@pytest.mark.parametrize(
    ("n", "sizes"), [(47, [16, 16]), (17, [16]), (16, [16]), (9, [9]), (48, [16, 16, 16])]
)
def test_a_short_last_batch_is_left_out_unless_it_is_the_only_one(
    n: int, sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert steps_by_epoch(model(), easy(n=n), monkeypatch) == sizes


@pytest.mark.parametrize("n_views", [2, 3])
def test_training_is_a_plain_loop_on_the_complete_samples(n_views: int) -> None:
    """One Adam for all epochs; predictors learn from their first epoch on; views in order."""
    data, method = gappy(n_views=n_views), model(learning_rate=1e-2)
    fitted = method.fit(data)
    streams = RandomStreams(0)
    made: Any = method._build(data.widths, [streams.torch("networks", n) for n in data.names])
    adam = torch.optim.Adam(made.parameters(), lr=1e-2)
    complete = torch.from_numpy(np.flatnonzero(data.observed.all(axis=1)))
    scaled = [torch.from_numpy(x)[complete] for x in Scaling.fit(data).transform(data)]
    losses = []
    for phase, epoch in (("contrast", 1), ("contrast", 2), ("prediction", 1), ("prediction", 2)):
        made.train()
        found = []
        for given in InMemory(scaled).epoch(16, streams.torch("shuffle", phase, epoch)):
            if len(given) < 16:
                continue
            codes = [made.encoders[v](x).softmax(1) for v, x in enumerate(given.views)]
            contrast = [
                mutual_information_loss(codes, [(0, v)], 10.0).sum() * (1 if v == 1 else 0.1)
                for v in range(1, n_views)
            ]
            misses = [
                functional.mse_loss(made.predict(v, w, codes[v]), codes[w])
                for v, w in routes(n_views, "core")
            ]
            decoded = [made.decoders[v](h) for v, h in enumerate(codes)]
            total = torch.stack(contrast).sum() / (n_views - 1) + 0.1 * sum(
                functional.mse_loss(x_hat, x) for x, x_hat in zip(given.views, decoded, strict=True)
            )
            if phase == "prediction":
                total = total + 0.1 * torch.stack(misses).sum() / (n_views - 1)
            adam.zero_grad()
            total.backward()
            adam.step()
            found.append(float(total.detach()))
        losses.append(np.mean(found))
    assert [r["loss"] for r in fitted.history_] == pytest.approx(losses, rel=1e-4)
    for name, value in made.state_dict().items():
        # What normalisation takes off again, such as a bias before it, has gradients of rounding
        # errors, which Adam makes steps of; so have single weights of units that do nothing. As a
        # whole the weights agree: one step more or less would show.
        if value.ndim == 2:
            assert (state_of(fitted)[name] - value).norm() < 0.01 * value.norm()


def test_incomplete_samples_train_nothing() -> None:
    data = gappy()
    lacking = ~data.observed.all(axis=1)
    other = {}
    for name, view in data.views.items():
        other[name] = np.array(view)
        other[name][lacking] *= 0.3  # NaN stays
    one, two = (model(scaling="none").fit(views) for views in (data, MultiView(other)))
    for name, value in state_of(one).items():
        assert torch.equal(value, state_of(two)[name])
    assert not np.array_equal(one.embedding_, two.embedding_)


# -- what takes the place of missing views ---------------------------------------------------------


def slow_codes(fitted: DCP, xs: list[np.ndarray], mode: str) -> np.ndarray:
    """Codes of one sample at a time, predicted where a view is missing."""
    made: Any = fitted.networks_.eval()
    joined = []
    for row in zip(*xs, strict=True):
        sample = [torch.from_numpy(x)[None] for x in row]
        there = [v for v, x in enumerate(sample) if not x.isnan().any()]
        codes = {v: made.encoders[v](sample[v]).softmax(1) for v in there}

        def guess(v: int, w: int, h: Tensor) -> Tensor:
            return made.predictors[f"{v}-{w}"](h).softmax(1)

        filled = dict(codes)
        for v in range(len(sample)):
            if v in there:
                continue
            if mode == "complete" or v == 0:
                filled[v] = torch.stack([guess(w, v, codes[w]) for w in there]).mean(0)
            else:
                filled[v] = guess(0, v, filled[0])
        joined.append(torch.cat([filled[v] for v in range(len(sample))], dim=1))
    return torch.cat(joined).detach().numpy()


@pytest.mark.parametrize("mode", ["core", "complete"])
@pytest.mark.parametrize("n_views", [2, 3])
def test_missing_views_have_the_codes_that_others_predict(mode: str, n_views: int) -> None:
    data = gappy(1, n_views=n_views, rate=0.6)
    fitted = model(mode=mode).fit(data)
    expected = slow_codes(fitted, fitted.scaling_.transform(data), mode)
    assert fitted.embedding_ is not None
    np.testing.assert_allclose(fitted.embedding_, expected, atol=1e-5)
    np.testing.assert_allclose(fitted.embedding_.sum(axis=1), n_views, rtol=1e-5)
    assert_array_equal(fitted.predict(data), fitted.labels_)


@pytest.mark.parametrize("lost", ["view1", "view2"])
def test_each_view_is_filled_in_by_itself(lost: str) -> None:
    data = easy(n_views=2)
    fitted = model().fit(data)
    some = MultiView(data.views, observed={lost: np.arange(50) >= 7})
    codes = fitted.transform(some)
    whole = fitted.transform(data)
    changed = slice(0, 6) if lost == "view1" else slice(6, 12)
    assert_array_equal(np.delete(codes, np.arange(12)[changed], axis=1),
                       np.delete(whole, np.arange(12)[changed], axis=1))  # fmt: skip
    assert_array_equal(codes[7:], whole[7:])
    assert np.isfinite(codes).all()
    assert np.abs(codes[:7, changed] - whole[:7, changed]).max() > 0
    np.testing.assert_allclose(codes[:7, changed].sum(axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize("mode", ["core", "complete"])
def test_new_samples_may_lack_what_none_lacked_in_the_fit(mode: str) -> None:
    data = easy()
    fitted = model(mode=mode).fit(data)
    for kept in range(3):
        observed = np.zeros((50, 3))
        observed[:, kept] = 1
        bare = MultiView(data.views, observed=observed).take(range(20))
        assert fitted.predict(bare).shape == (20,)
        mixed = drop_views(data, 0.7, random_state=kept)
        together = fitted.transform(mixed)
        order = np.random.default_rng(0).permutation(50)
        assert_array_equal(fitted.transform(mixed.take(order)), together[order])
        assert_array_equal(fitted.transform(mixed.take([3])), together[[3]])


def test_without_complete_samples_nothing_can_be_learnt() -> None:
    data = drop_views(easy(), 1.0, random_state=0)
    with pytest.raises(DataError, match="None of the 50 samples has all 3 views"):
        model().fit(data)
    lost = MultiView(easy().views, observed={n: [0] + [1] * 49 for n in easy().names})
    with pytest.raises(DataError, match="Sample 0 lacks every view"):
        model().fit(lost)


def test_one_complete_sample_is_enough_to_run() -> None:
    first = np.arange(50) % 2
    observed = np.column_stack([first, 1 - first])
    observed[11] = 1
    fitted = model().fit(MultiView(easy(n_views=2).views, observed=observed))
    assert np.isfinite(fitted.embedding_).all()


def test_other_methods_name_it_when_they_refuse() -> None:
    assert methods()["dcp"].accepts_missing
    with pytest.raises(DataError, match=r"a method that accepts missing views: .*dcp"):
        methods()["dwcl"](3).fit(gappy())


# -- quality ---------------------------------------------------------------------------------------

LEARNING = {"hidden": (64,), "latent": 10, "batch_size": 120, "prediction_start": 30}


@functools.cache
def quality(seed: int, rate: float, epochs: int) -> float:
    data = make_multiview(
        120, 3, widths=(8, 6, 5), quality=(0.8, 0.7, 0.6), noise=0.3, random_state=seed
    )
    settings = {**LEARNING, "epochs": epochs, "random_state": seed}
    fitted = model(**settings).fit(drop_views(data, rate, random_state=seed))
    return float(adjusted_rand_score(data.labels, fitted.labels_))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("rate", "floor"), [(0.0, 0.97), (0.5, 0.8)])
def test_it_finds_clusters_with_and_without_gaps(seed: int, rate: float, floor: float) -> None:
    assert quality(seed, rate, 90) > floor


@pytest.mark.parametrize("seed", range(3))
def test_learning_is_what_fills_the_gaps(seed: int) -> None:
    assert quality(seed, 0.5, 90) > quality(seed, 0.5, 0) + 0.5


# -- one fit like another --------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_bytes() -> None:
    one, two, other = (model(random_state=seed).fit(gappy()) for seed in (0, 0, 1))
    assert one.embedding_.tobytes() == two.embedding_.tobytes()
    assert_array_equal(one.labels_, two.labels_)
    assert one.embedding_.tobytes() != other.embedding_.tobytes()


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


@pytest.mark.parametrize("record", [1, 2, 3, 4])
def test_a_broken_run_ends_in_the_same_bytes(tmp_path: Path, record: int) -> None:
    data, whole = gappy(), model().fit(gappy())
    checkpoints = Checkpoints(tmp_path / "c", every=0)  # after each step
    with pytest.raises(BrokenError):
        model().fit(data, callbacks=[BreakAt(record)], checkpoint=checkpoints)
    resumed = model().fit(data, checkpoint=checkpoints)
    assert resumed.embedding_.tobytes() == whole.embedding_.tobytes()
    for name, value in state_of(whole).items():
        assert torch.equal(value, state_of(resumed)[name])
    assert [{**r, "seconds": 0} for r in resumed.history_] == [
        {**r, "seconds": 0} for r in whole.history_
    ]


def test_a_run_on_other_gaps_is_another_run(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, every=0)
    with pytest.raises(BrokenError):
        model().fit(gappy(), callbacks=[BreakAt(2)], checkpoint=checkpoints)
    with pytest.raises(ModelError, match="belong to another run: data differ"):
        model().fit(gappy(rate=0.2), checkpoint=tmp_path)


def test_a_saved_model_predicts_the_same(tmp_path: Path) -> None:
    fitted = model().fit(gappy())
    loaded = load_model(save_model(fitted, tmp_path / "m"))
    assert_array_equal(loaded.predict(gappy(3)), fitted.predict(gappy(3)))
    assert_array_equal(loaded.transform(gappy(3)), fitted.transform(gappy(3)))


def test_bf16_is_close_to_fp32() -> None:
    one, two = (model(precision=p, learning_rate=3e-4).fit(gappy()) for p in ("fp32", "bf16"))
    assert not np.array_equal(one.embedding_, two.embedding_)
    np.testing.assert_allclose(one.embedding_, two.embedding_, atol=0.05)


def test_data_that_stay_on_the_disk_are_learnt_from_alike() -> None:
    streamed = model(memory_budget=1e-6, epochs=8).fit(gappy())
    assert [r["phase"] for r in streamed.history_] == ["contrast"] * 2 + ["prediction"] * 6
    first, last = (streamed.history_[i]["loss"] for i in (0, -1))
    assert last < first
    assert_array_equal(streamed.predict(gappy()), streamed.labels_)


# -- shapes of data --------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["core", "complete"])
@pytest.mark.parametrize("n_views", [1, 2, 3])
@pytest.mark.parametrize("batch_size", [1, 7, 200])
def test_any_number_of_views_and_any_batches(mode: str, n_views: int, batch_size: int) -> None:
    data = easy(n=15, n_views=n_views)
    fitted = model(mode=mode, batch_size=batch_size).fit(data)
    assert np.isfinite(fitted.embedding_).all()
    assert fitted.embedding_.shape == (15, 6 * n_views)
    assert_array_equal(fitted.predict(data), fitted.labels_)


def test_a_single_view_learns_by_reconstruction_alone() -> None:
    fitted = model(epochs=30, learning_rate=1e-2).fit(easy(n_views=1))
    assert "contrast" not in fitted.history_[0]
    assert fitted.history_[-1]["loss"] < fitted.history_[0]["loss"]
    with pytest.raises(SettingError, match="Nothing is left to learn"):
        model(reconstruction_weight=0).fit(easy(n_views=1))


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int32])
def test_types_and_constant_columns(dtype: type) -> None:
    views = {n: np.rint(view * 50).astype(dtype) for n, view in gappy(rate=0).views.items()}
    views["view1"][:, 2] = 7
    fitted = model().fit(MultiView(views, observed=gappy().observed))
    assert np.isfinite(fitted.embedding_).all()


CHANGES: dict[str, Any] = {
    "mode": "complete",
    "entropy_weight": 2.0,
    "side_weight": 1.0,
    "prediction_weight": 5.0,
    "reconstruction_weight": 5.0,
    "prediction_start": 0,
    "hidden": (8, 8),
    "latent": 5,
    "predictor": (4,),
    "epochs": 3,
    "batch_size": 10,
    "learning_rate": 1e-2,
    "scaling": "none",
    "precision": "bf16",
    "random_state": 1,
}
OTHERS = {"n_clusters", "n_init", "memory_budget", "device", "threads"}


def test_every_setting_is_looked_at() -> None:
    assert set(CHANGES) | OTHERS == set(DCP().get_params())


@pytest.mark.parametrize("name", CHANGES)
def test_every_setting_has_an_effect(name: str) -> None:
    plain = {"prediction_weight": 1.0, "learning_rate": 2e-3}
    one, two = (
        model(**settings).fit(gappy()).embedding_
        for settings in (plain, plain | {name: CHANGES[name]})
    )
    assert one.shape != two.shape or not np.allclose(one, two, atol=1e-6)
