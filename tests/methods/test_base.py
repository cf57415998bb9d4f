"""The contract that all methods share, tried on DWCL."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from joblib import Parallel, delayed
from numpy.testing import assert_array_equal
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from dwcl import DWCL, MultiView, make_multiview
from dwcl.data.synthetic import drop_views
from dwcl.errors import DataError, SettingError, TrainingError
from dwcl.methods.sources import pick_device
from dwcl.training.callbacks import Callback, Record, RunInfo


@pytest.fixture
def data() -> MultiView:
    return make_multiview(60, 3, widths=(5, 4), noise=0.1, random_state=0)


def test_scikit_learn_accepts_the_estimator() -> None:
    model = DWCL(
        3, encoder=(16,), latent=8, embedding=6, pretrain_epochs=3, iterations=1, epochs=3,
        n_init=3, threads=1, precision="fp32",
    )  # fmt: skip
    results = check_estimator(model, on_skip=None)
    skipped = {r["check_name"] for r in results if r["status"] == "skipped"}
    assert skipped <= {"check_array_api_input"}  # needs an environment variable of scipy
    assert all(r["status"] == "passed" for r in results if r["check_name"] not in skipped)
    assert not any(r["expected_to_fail"] for r in results)
    assert len(results) > 40


@pytest.mark.parametrize(
    "kind", ["multiview", "dict", "list", "tuple", "sparse", "torch", "frames", "float16", "ints"]
)
def test_whatever_holds_several_tables_is_accepted(
    data: MultiView, small: dict[str, Any], kind: str
) -> None:
    a, b = (np.round(view, 2) for view in data.arrays)
    given: Any = {
        "multiview": MultiView({"view1": a, "view2": b}),
        "dict": {"view1": a, "view2": b},
        "list": [a, b],
        "tuple": (a, b),
        "sparse": [sp.coo_matrix(a), sp.csc_array(b)],
        "torch": [torch.from_numpy(a), torch.from_numpy(b).requires_grad_()],
        "frames": {"view1": pd.DataFrame(a), "view2": pd.DataFrame(b)},
        "float16": [a.astype(np.float16), b],
        "ints": [np.rint(a * 100).astype(np.int32), b],
    }[kind]
    model = DWCL(3, **small, random_state=0).fit(given)
    reference = DWCL(3, **small, random_state=0).fit([a, b])
    assert model.view_names_ == ("view1", "view2")
    assert model.n_features_in_ == 9
    tolerance = 0.05 if kind == "float16" else 1e-4
    np.testing.assert_allclose(model.embedding_, reference.embedding_, atol=tolerance)
    assert_array_equal(model.predict(given), model.labels_)


def test_predict_finds_views_by_name_and_lists_by_position(
    data: MultiView, small: dict[str, Any]
) -> None:
    named = {"rna": data["view1"], "protein": data["view2"]}
    model = DWCL(3, **small, random_state=0).fit(named)
    turned = {"protein": data["view2"], "rna": data["view1"]}
    assert_array_equal(model.predict(turned), model.labels_)
    assert_array_equal(model.predict(list(data.arrays)), model.labels_)
    with pytest.raises(DataError, match="protein"):
        model.predict({"rna": data["view1"]})
    with pytest.raises(DataError, match="5"):
        model.predict({"rna": data["view1"][:, :3], "protein": data["view2"]})


def test_fitting_again_forgets_the_first_fit(data: MultiView, small: dict[str, Any]) -> None:
    model = DWCL(3, **small, random_state=0)
    model.fit(data.select(["view1"]))
    model.fit(data)
    assert_array_equal(model.embedding_, DWCL(3, **small, random_state=0).fit(data).embedding_)


def test_a_failed_fit_leaves_the_former_one(data: MultiView, small: dict[str, Any]) -> None:
    class Broken(Callback):
        def on_record(self, record: Record) -> None:
            raise RuntimeError("broken on purpose")

    model = DWCL(3, **small, random_state=0).fit(data)
    before = model.labels_
    with pytest.raises(RuntimeError, match="on purpose"):
        model.fit(data.take(range(40)), callbacks=[Broken()])
    assert model.labels_ is before


def test_callbacks_see_start_every_record_and_end(data: MultiView, small: dict[str, Any]) -> None:
    seen: list[str] = []

    class Witness(Callback):
        def on_start(self, info: RunInfo) -> None:
            seen.append(f"start {info.method} {info.view_names} {info.total_epochs}")

        def on_record(self, record: Record) -> None:
            seen.append(record["event"])

        def on_end(self) -> None:
            seen.append("end")

    model = DWCL(3, **small, random_state=0).fit(data, callbacks=[Witness()])
    assert seen[0] == "start dwcl ('view1', 'view2') 20"
    assert seen[1:-1] == [record["event"] for record in model.history_]
    assert seen[-1] == "end"


def test_it_works_in_a_pipeline(data: MultiView, small: dict[str, Any]) -> None:
    table = np.hstack(data.arrays)
    pipeline = make_pipeline(StandardScaler(), DWCL(3, **small, random_state=0))
    assert_array_equal(pipeline.fit_predict(table), pipeline.predict(table))


def test_it_works_in_processes_of_joblib(data: MultiView, small: dict[str, Any]) -> None:
    here = DWCL(3, **small, random_state=0).fit(data).labels_
    there = Parallel(n_jobs=2)(
        delayed(DWCL(3, **small, random_state=0).fit_predict)(data) for _ in range(2)
    )
    for labels in there:
        assert_array_equal(labels, here)


def test_a_fitted_model_can_be_copied(data: MultiView, small: dict[str, Any]) -> None:
    model = DWCL(3, **small, random_state=0).fit(data)
    for copied in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert_array_equal(copied.predict(data), model.labels_)


def test_an_unfitted_model_says_so(data: MultiView) -> None:
    with pytest.raises(NotFittedError):
        DWCL().predict(data)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"temperature": 0}, "temperature is 0; input should be greater than 0"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"mechanism": "best"}, "mechanism is 'best'; input should be 'best-other' or 'pairwise'"),
        ({"encoder": (5, -1)}, "encoder"),
        ({"scaling": "minmx"}, "Did you mean 'minmax'"),
        ({"scaling": {"view9": "none"}}, "view9"),
        ({"random_state": -1}, "random_state is -1"),
        ({"random_state": "seven"}, "random_state"),
        ({"n_clusters": 0}, "n_clusters is 0"),
        ({"learning_rate": float("nan")}, "learning_rate"),
        # A value of another type is not turned into what it might mean.
        ({"n_clusters": "3"}, "n_clusters is '3'; input should be a valid integer"),
        ({"n_clusters": 3.0}, "n_clusters is 3.0"),
        ({"batch_size": 64.0}, "batch_size is 64.0"),
        ({"learning_rate": "0.001"}, "learning_rate is '0.001'"),
        ({"baselines": "no"}, "baselines is 'no'"),
        ({"self_pairs": 1}, "self_pairs is 1"),
    ],
)
def test_wrong_settings_are_named(
    data: MultiView, small: dict[str, Any], change: dict[str, Any], message: str
) -> None:
    with pytest.raises(SettingError, match=message):
        DWCL(**({"n_clusters": 3} | small | change)).fit(data)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda x: x.__setitem__((3, 1), np.nan), "'b'.*NaN"),
        (lambda x: x.__setitem__((3, 1), np.inf), "'b'.*infinit"),
        (lambda x: x.__setitem__((3, 1), 1e30), "'b'.*huge"),
        (lambda x: x.fill(2.0), "'b'.*constant"),
    ],
)
def test_unusable_values_are_placed(small: dict[str, Any], spoil: Any, message: str) -> None:
    rng = np.random.default_rng(0)
    views = {"a": rng.normal(size=(20, 3)), "b": rng.normal(size=(20, 2))}
    spoil(views["b"])
    with pytest.raises(DataError, match=message):
        DWCL(2, **small).fit(views)


def test_nan_is_found_in_predict_too(data: MultiView, small: dict[str, Any]) -> None:
    model = DWCL(3, **small).fit(data)
    views = [view.copy() for view in data.arrays]
    views[0][2, 1] = np.nan
    with pytest.raises(DataError, match="NaN"):
        model.predict(views)


def test_one_sample_is_refused(small: dict[str, Any]) -> None:
    with pytest.raises(DataError, match="1 sample"):
        DWCL(1, **small).fit([np.ones((1, 3)), np.ones((1, 2))])


def test_a_diverging_loss_stops_the_run_with_its_place(
    data: MultiView, small: dict[str, Any]
) -> None:
    model = DWCL(3, **(small | {"learning_rate": 1e30, "scaling": "none"}), random_state=0)
    with pytest.raises(TrainingError, match=r"phase 'pretrain', epoch .*view"):
        model.fit(data)


def test_devices() -> None:
    assert pick_device("cpu") == torch.device("cpu")
    expected = "cuda" if torch.cuda.is_available() else "cpu"
    assert pick_device("auto").type == expected
    if not torch.cuda.is_available():
        with pytest.raises(SettingError, match="no such GPU"):
            pick_device("cuda")
    with pytest.raises(SettingError, match="device is 'gpu', which PyTorch cannot use here"):
        pick_device("gpu")


def test_threads_are_given_back(data: MultiView, small: dict[str, Any]) -> None:
    before = torch.get_num_threads()
    short = {"pretrain_epochs": 1, "iterations": 0, "threads": before + 1}
    DWCL(3, **(small | short)).fit(data)
    assert torch.get_num_threads() == before


class Filling(DWCL):
    """Takes missing rows for zeros, and notes which ones it meets."""

    accepts_missing = True

    def _build(self, widths: Any, generators: Any) -> Any:
        self.met = []
        return super()._build(widths, generators)

    def _learn(self, run: Any) -> dict[str, Any]:
        self.told = run.observed.numpy()
        return {}

    def _represent(self, networks: Any, xs: list[torch.Tensor]) -> list[torch.Tensor]:
        self.met.append(torch.stack([x.isnan().all(dim=1) for x in xs], dim=1))
        return super()._represent(networks, [x.nan_to_num() for x in xs])


def test_a_method_sees_which_views_are_missing(data: MultiView, small: dict[str, Any]) -> None:
    gappy = drop_views(data, 0.5, random_state=0)
    model = Filling(3, **small, random_state=0).fit(gappy)
    assert_array_equal(model.told, gappy.observed)
    block = model.met[-1]  # with 196 rows of padding, which are not missing
    assert_array_equal(block[:60], ~gappy.observed)
    assert not block[60:].any()
    assert_array_equal(model.predict(gappy), model.labels_)
    one = gappy.take(np.flatnonzero(~gappy.observed[:, 1])[:3])  # a view that nobody has
    assert model.predict(one).shape == (3,)


@pytest.mark.parametrize("budget", [2.0, 1e-7])
def test_what_is_missing_is_so_from_memory_and_from_the_disk(
    data: MultiView, small: dict[str, Any], budget: float
) -> None:
    model = Filling(3, **small, memory_budget=budget, random_state=0)
    gappy = drop_views(data, 0.5, random_state=0)
    model.fit(gappy)
    seen = torch.cat([block[:60] for block in model.met[-1:]])
    assert_array_equal(seen, ~gappy.observed)


def test_missing_views_are_refused_by_methods_that_need_all(
    data: MultiView, small: dict[str, Any]
) -> None:
    named = MultiView(data.views, sample_ids=[f"p{i}" for i in range(60)])
    gappy = MultiView(
        named.views, sample_ids=named.sample_ids, observed={"view2": np.arange(60) > 3}
    )
    message = (
        r"4 of 60 samples lack view 'view2' \(rows of NaN\), the first is 'p0', and the method "
        r"'dwcl' needs every view of every sample\. Leave these samples out, or take a method that "
        r"accepts missing views: "
    )
    model = DWCL(3, **small)
    with pytest.raises(DataError, match=message):
        model.fit(gappy)
    model.fit(named)
    with pytest.raises(DataError, match=message):
        model.predict(gappy)


@pytest.mark.parametrize("kind", [DWCL, Filling])
def test_nothing_is_made_of_nothing(
    data: MultiView, small: dict[str, Any], kind: type[DWCL]
) -> None:
    lost = [1] * 7 + [0] + [1] * 52
    model = kind(3, **small, random_state=0).fit(data)
    bare = MultiView(data.views, observed={"view1": lost, "view2": lost})
    for call in (model.fit, model.predict):
        with pytest.raises(DataError, match="Sample 7 lacks every view"):
            call(bare)
    with pytest.raises(DataError, match="No sample has view 'view1'"):
        model.fit(MultiView(data.views, observed={"view1": [0] * 60}))
