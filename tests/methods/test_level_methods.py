"""What MFLVC and DealMVC have in common: results, interruptions, shapes at the edge."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from sklearn.base import clone

from dwcl import Checkpoints, MultiView, load_model, make_multiview, save_model
from dwcl.errors import DataError
from dwcl.methods.dealmvc import DealMVC
from dwcl.methods.mflvc import MFLVC
from dwcl.training.callbacks import Callback, Record

Method = type[MFLVC] | type[DealMVC]

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
    "random_state": 0,
}


@pytest.fixture(params=[MFLVC, DealMVC], ids=lambda method: method.method_name)
def method(request: pytest.FixtureRequest) -> Method:
    return request.param


def data_of(n: int = 75, k: int = 3, n_views: int = 3) -> MultiView:
    widths = (10, 12, 8)[:n_views]
    return make_multiview(n, k, widths=widths, quality=0.7, noise=0.2, random_state=0)


def fitted(method: Method, data: MultiView | None = None, k: int = 3, **settings: Any) -> Any:
    return method(k, **(SMALL | settings)).fit(data or data_of())


def test_labels_are_the_greatest_shares_of_the_mean_assignment(method: Method) -> None:
    data = data_of()
    model = fitted(method, data)
    shares = model.predict_proba(data)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0, atol=1e-6)
    assert_array_equal(shares.argmax(axis=1), model.labels_)
    assert_array_equal(model.predict(data), model.labels_)
    xs = [torch.from_numpy(x) for x in model.scaling_.transform(data)]
    with torch.no_grad():
        networks = model.networks_.eval()
        qs = networks.assign(networks.encode(xs))
        zs = networks.project(networks.encode(xs))
    np.testing.assert_allclose(shares, torch.stack(qs).mean(0).numpy(), atol=1e-6)
    np.testing.assert_allclose(model.embedding_, torch.cat(zs, dim=1).numpy(), atol=1e-6)
    assert_array_equal(model.transform(data), model.embedding_)
    for part in np.split(model.embedding_, 3, axis=1):
        np.testing.assert_allclose(np.linalg.norm(part, axis=1), 1.0, atol=1e-6)
    alone = np.vstack([model.predict_proba(data.take([i])) for i in (0, 30, 74)])
    assert_array_equal(alone, shares[[0, 30, 74]])


def test_the_same_seed_gives_the_same_bytes_and_another_does_not(method: Method) -> None:
    one, two, other = (fitted(method, random_state=seed) for seed in (3, np.int64(3), 4))
    assert one.embedding_.tobytes() == two.embedding_.tobytes()
    assert one.labels_.tobytes() == two.labels_.tobytes()
    assert one.embedding_.tobytes() != other.embedding_.tobytes()


def test_labels_given_to_fit_change_nothing(method: Method) -> None:
    data = data_of()
    one, other = fitted(method, data), fitted(method, data.with_labels(None))
    assert_array_equal(one.embedding_, other.embedding_)


def test_bf16_comes_close(method: Method) -> None:
    data = data_of()
    full, rounded = (fitted(method, data, precision=precision) for precision in ("fp32", "bf16"))
    assert rounded.precision_ == "bf16"
    one, two = (model.predict_proba(data) for model in (full, rounded))
    assert not np.array_equal(one, two)
    np.testing.assert_allclose(one, two, atol=0.05)


def test_a_model_on_disk_predicts_the_same(method: Method, tmp_path: Path) -> None:
    data = data_of()
    model = fitted(method, data)
    loaded = load_model(save_model(model, tmp_path))
    assert isinstance(loaded, method)
    assert_array_equal(loaded.predict(data), model.labels_)
    assert_array_equal(loaded.predict_proba(data), model.predict_proba(data))
    assert loaded.view_agreement_ == model.view_agreement_
    assert clone(loaded).get_params() == loaded.get_params()


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


@pytest.mark.parametrize("record", [2, 5, 7, 8, 10, 11])
def test_broken_at_a_record_it_ends_in_the_same_bytes(
    method: Method, tmp_path: Path, record: int
) -> None:
    data = data_of(n=50)
    whole = fitted(method, data)
    model = method(3, **SMALL)
    checkpoints = Checkpoints(tmp_path / "c", every=0)
    with pytest.raises(BrokenError):
        model.fit(data, callbacks=[BreakAt(record)], checkpoint=checkpoints)
    model.fit(data, checkpoint=checkpoints)
    folders = [save_model(m, tmp_path / name) for name, m in (("a", whole), ("b", model))]
    for name in ("model.json", "model.safetensors"):
        assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes()
    assert whole.embedding_.tobytes() == model.embedding_.tobytes()
    histories = [[{**r, "seconds": 0} for r in m.history_] for m in (whole, model)]
    assert histories[0] == histories[1]
    for view, labels in whole.pseudo_labels_.items():
        assert_array_equal(labels, model.pseudo_labels_[view])


@pytest.mark.parametrize("n_views", [1, 2, 3])
def test_any_number_of_views(method: Method, n_views: int) -> None:
    model = fitted(method, data_of(n=50, n_views=n_views))
    width = model.get_params().get("embedding", 16)
    assert model.embedding_.shape == (50, width * n_views)
    assert model.feature_widths_ == (width,) * n_views
    assert np.shape(model.view_agreement_) == (n_views, n_views)
    assert ("contrast" in model.history_[5]) == (n_views > 1)
    names = [f"{view}_0" for view in model.view_names_]
    assert list(model.get_feature_names_out()[::width]) == names


@pytest.mark.parametrize(("n", "batch"), [(10, 128), (33, 32), (12, 1), (31, 31)])
def test_any_size_of_batch(method: Method, n: int, batch: int) -> None:
    for last in ("drop", "keep"):
        model = fitted(method, data_of(n=n, k=2), k=2, batch_size=batch, last_batch=last)
        assert np.isfinite(model.embedding_).all()


def test_any_number_of_clusters(method: Method) -> None:
    assert set(fitted(method, k=1).labels_) == {0}
    model = fitted(method, data_of(n=6, k=2), k=6)
    assert model.labels_.shape == (6,)
    assert model.predict_proba(data_of(n=6, k=2)).shape == (6, 6)
    with pytest.raises(DataError, match="n_clusters is 7"):
        fitted(method, data_of(n=6, k=2), k=7)


def test_a_constant_column_integers_and_float64_are_no_obstacle(method: Method) -> None:
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 9, (40, 5))
    counts[:, 2] = 3
    data = {"counts": counts, "real": rng.normal(size=(40, 3))}
    model = method(2, **SMALL).fit(data)
    assert np.isfinite(model.embedding_).all()
    assert_array_equal(model.predict(data), model.labels_)


def test_data_that_are_streamed_and_features_in_files(method: Method) -> None:
    data = data_of(n=100)
    model = fitted(method, data, memory_budget=1e-5)
    assert model.embedding_ is None
    assert_array_equal(model.predict(data), model.labels_)
