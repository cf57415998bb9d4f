"""k-means on all codes: as inside DWCL, or with views that have the same say."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score

from dwcl import DWCL, Checkpoints, MultiView, load_model, make_multiview, save_model
from dwcl.errors import SettingError
from dwcl.methods import concat_ae
from dwcl.methods.concat_ae import ConcatAE, mean_and_variance
from dwcl.training.callbacks import Callback, Record

SEEDS = (0, 1, 2)
NET: dict[str, Any] = {
    "encoder": (16, 12),
    "latent": 8,
    "pretrain_epochs": 6,
    "batch_size": 32,
    "learning_rate": 3e-3,
    "n_init": 3,
    "threads": 1,
    "precision": "fp32",
}
LONG: dict[str, Any] = {"encoder": (32, 32), "latent": 16, "pretrain_epochs": 40}
CLEAR: dict[str, Any] = {"widths": (10, 12, 8), "quality": (0.5, 1, 0.5), "noise": (0.2, 0.05, 0.3)}


def views(seed: int, n: int = 97) -> MultiView:
    """97 samples leave a last batch of one."""
    how: dict[str, Any] = {"widths": (6, 8, 7), "quality": (0.5, 0.9, 0.5), "noise": 0.3}
    return make_multiview(n, 3, **how, random_state=seed)


def parts_of(model: ConcatAE) -> list[NDArray[np.float64]]:
    assert model.embedding_ is not None
    return np.split(model.embedding_.astype(np.float64), len(model.view_names_), axis=1)


def total_variance(part: NDArray[np.float64]) -> float:
    return float(((part - part.mean(axis=0)) ** 2).sum(axis=1).mean())


# -- as inside DWCL --------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    "change",
    [
        {},
        {"precision": "bf16"},
        {"decoder": (10,), "scaling": "standard"},
        {"memory_budget": 2e-5},
        {"pretrain_epochs": 0},
    ],
    ids=["plain", "bf16", "others", "streamed", "untrained"],
)
def test_its_clusters_are_the_yardstick_inside_dwcl(seed: int, change: dict[str, Any]) -> None:
    data = views(seed)
    settings = NET | change | {"random_state": seed}
    reference = DWCL(3, **settings, embedding=4, iterations=1, epochs=1).fit(data)
    model = ConcatAE(3, **settings).fit(data)
    assert_array_equal(model.labels_, reference.baseline_labels_["concat-ae"])


def test_its_defaults_are_those_of_dwcl() -> None:
    of_dwcl = inspect.signature(DWCL).parameters
    own = dict(inspect.signature(ConcatAE).parameters)
    assert own.pop("balance").default == "none"
    assert {n: p.default for n, p in own.items()} == {n: of_dwcl[n].default for n in own}


@pytest.mark.parametrize("balance", ["none", "variance"])
@pytest.mark.parametrize("seed", SEEDS)
def test_it_finds_clear_clusters(seed: int, balance: Any) -> None:
    data = make_multiview(120, 3, **CLEAR, random_state=seed)
    labels = ConcatAE(3, balance=balance, **(NET | LONG), random_state=seed).fit_predict(data)
    assert adjusted_rand_score(data.labels, labels) > 0.9


@pytest.mark.parametrize("seed", SEEDS)
def test_it_beats_its_own_untrained_networks(seed: int) -> None:
    data = make_multiview(120, 4, widths=(20, 20), noise=0.8, nonlinear=0.5, random_state=seed)
    trained, raw = (
        ConcatAE(4, **(NET | LONG | {"pretrain_epochs": n}), random_state=seed).fit_predict(data)
        for n in (60, 0)
    )
    assert adjusted_rand_score(data.labels, trained) > adjusted_rand_score(data.labels, raw)


def test_the_history_has_every_epoch() -> None:
    model = ConcatAE(3, **NET, random_state=0).fit(views(0))
    assert [r["phase"] for r in model.history_] == ["pretrain"] * 6
    assert all(r["loss"] == pytest.approx(sum(r["reconstruction"])) for r in model.history_)


# -- balance ---------------------------------------------------------------------------------------


def test_without_balance_codes_are_as_the_encoders_make_them() -> None:
    model = ConcatAE(3, **NET, random_state=0).fit(views(0))
    scaled = [torch.from_numpy(x) for x in model.scaling_.transform(views(0))]
    padded = [torch.nn.functional.pad(x, (0, 0, 0, 256 - 97)) for x in scaled]
    with torch.no_grad():
        codes = torch.cat(model.networks_.eval().encode(padded), dim=1)[:97]
    assert model.embedding_.tobytes() == codes.numpy().tobytes()


def test_with_balance_each_view_is_centred_and_of_total_variance_one() -> None:
    plain, balanced = (
        ConcatAE(3, balance=balance, **NET, random_state=0).fit(views(0))
        for balance in ("none", "variance")
    )
    for name, before, after in zip(
        plain.view_names_, parts_of(plain), parts_of(balanced), strict=True
    ):
        variance = total_variance(before)
        assert plain.view_variances_[name] == pytest.approx(variance, rel=1e-5)
        assert balanced.view_variances_[name] == plain.view_variances_[name]
        assert_allclose(after, (before - before.mean(axis=0)) / np.sqrt(variance), atol=1e-5)
        assert_allclose(after.mean(axis=0), 0, atol=1e-6)
        assert total_variance(after) == pytest.approx(1, rel=1e-5)
    assert len({round(v, 6) for v in plain.view_variances_.values()}) == 3


def test_the_figures_are_those_of_the_training_data() -> None:
    model = ConcatAE(3, balance="variance", **NET, random_state=0).fit(views(0))
    few = views(0).take(range(5))
    assert_array_equal(model.transform(few), model.embedding_[:5])


@pytest.mark.parametrize("seed", SEEDS)
def test_balance_keeps_a_loud_view_from_deciding_alone(seed: int) -> None:
    """A view of noise, ten times as large as the one that shows the clusters."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 2, 100)
    clear = truth[:, None] * np.ones(4) + rng.normal(scale=0.05, size=(100, 4))
    data = {"clear": clear, "loud": rng.normal(scale=10, size=(100, 4))}
    net = NET | {"scaling": "none", "pretrain_epochs": 30, "random_state": seed}
    plain, balanced = (
        ConcatAE(2, balance=balance, **net).fit(data) for balance in ("none", "variance")
    )
    assert plain.view_variances_["loud"] > 20 * plain.view_variances_["clear"]
    assert adjusted_rand_score(truth, plain.labels_) < 0.2
    assert adjusted_rand_score(truth, balanced.labels_) > 0.8


def test_balance_is_kept_on_disk(tmp_path: Path) -> None:
    model = ConcatAE(3, balance="variance", **NET, random_state=0).fit(views(0))
    loaded = load_model(save_model(model, tmp_path))
    assert loaded.get_params()["balance"] == "variance"
    assert loaded.view_variances_ == model.view_variances_
    assert_array_equal(loaded.transform(views(1)), model.transform(views(1)))
    assert_array_equal(loaded.predict(views(1)), model.predict(views(1)))


@pytest.mark.parametrize("record", [1, 4, 6])
def test_balance_after_an_interruption(tmp_path: Path, record: int) -> None:
    class Broken(Callback):
        def on_record(self, found: Record) -> None:
            if found["epoch"] == record:
                raise RuntimeError("broken on purpose")

    whole = ConcatAE(3, balance="variance", **NET, random_state=0).fit(views(0))
    model = ConcatAE(3, balance="variance", **NET, random_state=0)
    checkpoints = Checkpoints(tmp_path / "c", every=0)
    with pytest.raises(RuntimeError, match="on purpose"):
        model.fit(views(0), callbacks=[Broken()], checkpoint=checkpoints)
    model.fit(views(0), checkpoint=checkpoints)
    assert model.embedding_.tobytes() == whole.embedding_.tobytes()
    assert model.view_variances_ == whole.view_variances_


def test_a_view_whose_codes_are_all_the_same_is_centred_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = ConcatAE(3, **NET, random_state=0).fit(views(0))
    monkeypatch.setattr(concat_ae, "mean_and_variance", lambda h: (mean_and_variance(h)[0], 0.0))
    model = ConcatAE(3, balance="variance", **NET, random_state=0).fit(views(0))
    for before, after in zip(parts_of(plain), parts_of(model), strict=True):
        assert_allclose(after, before - before.mean(axis=0), atol=1e-6)


def test_balance_for_one_view_leaves_its_clusters() -> None:
    data = views(0).select(["view2"])
    plain, balanced = (
        ConcatAE(3, balance=balance, **NET, random_state=0).fit_predict(data)
        for balance in ("none", "variance")
    )
    assert adjusted_rand_score(plain, balanced) == 1.0


def test_other_kinds_of_balance_are_refused() -> None:
    with pytest.raises(
        SettingError, match="balance is 'std'; input should be 'none' or 'variance'"
    ):
        ConcatAE(3, balance="std", **NET).fit(views(0))


# -- mean and variance of a table ------------------------------------------------------------------


@pytest.mark.parametrize("offset", [0.0, 1000.0])
@pytest.mark.parametrize("rows", [7, 25, 2**13])
def test_mean_and_variance_are_those_of_the_definition(
    monkeypatch: pytest.MonkeyPatch, offset: float, rows: int
) -> None:
    monkeypatch.setattr(concat_ae, "BLOCK_ROWS", rows)
    table = np.random.default_rng(0).normal(offset, 0.1, size=(50, 4)).astype(np.float32)
    mean, variance = mean_and_variance(torch.from_numpy(table))
    exact = table.astype(np.float64)
    assert mean.dtype == torch.float32
    assert_allclose(mean.numpy(), exact.mean(axis=0), rtol=1e-6, atol=1e-7)
    assert variance == pytest.approx(exact.var(axis=0).sum(), rel=1e-9)


@pytest.mark.parametrize("value", [0.0, 0.1, -1e3, 1e-30])
def test_rows_that_are_all_the_same_have_no_variance(value: float) -> None:
    assert mean_and_variance(torch.full((33, 3), value))[1] == 0.0
