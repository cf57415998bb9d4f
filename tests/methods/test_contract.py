"""What every method keeps to, whatever it learns: tried on each that the registry finds.

A new method passes through here without a line of its own; settings under which a fit takes a
moment are chosen by the types of its parameters. Interruptions and docstrings have files beside.
"""

from __future__ import annotations

import copy
import inspect
import json
import math
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import pytest
import scipy.sparse
import torch
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator
from torch import nn

from dwcl import MultiView, load_model, save_model
from dwcl.errors import DataError, SettingError
from dwcl.methods import DeepMultiViewClusterer, methods
from dwcl.methods.settings import check_settings
from dwcl.methods.soft import SoftClusterer
from dwcl.training.callbacks import Callback, Record, RunInfo

Model: TypeAlias = DeepMultiViewClusterer
Method: TypeAlias = type[Model]
Make: TypeAlias = Callable[..., Model]
Draw: TypeAlias = Callable[..., MultiView]
K = 3
BATCH = 16

pytestmark = pytest.mark.parametrize("method", methods().values(), ids=list(methods()))


def bytes_of(model: Model, folder: Path) -> bytes:
    save_model(model, folder)
    content = [(folder / name).read_bytes() for name in ("model.json", "model.safetensors")]
    return b"".join(content) + model.labels_.tobytes()


def without_times(history: list[Record]) -> list[Record]:
    return [{k: v for k, v in record.items() if k != "seconds"} for record in history]


def epochs_of(model: Model) -> list[Record]:
    return [record for record in model.history_ if record["event"] == "epoch"]


def check_result(model: Model, data: MultiView) -> None:
    """Labels of the right form that predict confirms, features that are numbers."""
    assert model.labels_.dtype == np.int64
    assert model.labels_.shape == (data.n_samples,)
    assert 0 <= model.labels_.min() <= model.labels_.max() < model.n_clusters
    assert_array_equal(model.predict(data), model.labels_)
    assert np.isfinite(model.transform(data)).all()


# -- parameters ------------------------------------------------------------------------------------


def test_a_decoder_without_hidden_layers_is_a_linear_one(
    method: Method, make: Make, tiny: dict[str, Any]
) -> None:
    if "decoder" not in inspect.signature(method).parameters:
        pytest.skip("has no decoder to be chosen")
    generators = [torch.Generator().manual_seed(v) for v in range(2)]
    mirrored, linear = (make(decoder=d)._build((5, 4), generators) for d in (None, ()))
    counts = [
        sum(isinstance(m, nn.Linear) and "decoder" in name for name, m in networks.named_modules())
        for networks in (mirrored, linear)
    ]
    assert counts == [2 * (len(tiny["encoder"]) + 1), 2]


def test_parameters_are_kept_as_they_were_given(
    method: Method, make: Make, tiny: dict[str, Any], draw: Draw
) -> None:
    defaults = {n: p.default for n, p in inspect.signature(method).parameters.items()}
    assert method().get_params() == defaults
    assert check_settings(method, defaults) == defaults
    model = make()
    given = dict(vars(model))
    assert set(given) == set(defaults)
    assert all(given[name] is value for name, value in model.get_params().items())
    model.fit(draw())
    assert all(vars(model)[name] is value for name, value in given.items())
    assert clone(model).get_params() == model.get_params() == defaults | tiny
    assert method().set_params(**tiny).get_params() == defaults | tiny


def test_parameters_go_by_the_house_s_names_and_order(method: Method) -> None:
    parameters = inspect.signature(method).parameters
    first, *others = parameters.values()
    assert (first.name, first.default) == ("n_clusters", 8)
    assert {p.kind for p in others} == {inspect.Parameter.KEYWORD_ONLY}
    order = ["batch_size", "learning_rate", "scaling", "n_init", "memory_budget", "precision",
             "device", "threads", "random_state"]  # fmt: skip
    assert [name for name in parameters if name in order] == [n for n in order if n in parameters]
    common = {"scaling": "minmax", "memory_budget": 2.0, "precision": "auto", "device": "auto",
              "threads": None, "random_state": None}  # fmt: skip
    needed = set(common) - {"precision"} | ({"precision"} if _learns(method) else set())
    assert needed <= set(parameters)
    assert all(parameters[name].default == common[name] for name in needed)


def _learns(method: Method) -> bool:
    return method()._total_epochs() > 0


def test_unknown_and_impossible_values_are_refused(make: Make, draw: Draw) -> None:
    with pytest.raises(SettingError, match="n_clusters is 0"):
        make(n_clusters=0).fit(draw())
    with pytest.raises(SettingError, match="random_state"):
        make(random_state="seven").fit(draw())
    with pytest.raises(DataError, match="n_clusters is 41, but the data have 40 samples"):
        make(n_clusters=41).fit(draw())


# -- randomness ------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_bytes_and_another_does_not(
    tmp_path: Path, make: Make, fitted: Model, draw: Draw
) -> None:
    one = bytes_of(fitted, tmp_path / "a")
    assert bytes_of(make().fit(draw()), tmp_path / "b") == one
    other = make(random_state=1).fit(draw())
    assert other.seed_ == 1
    if epochs_of(other):  # what is found without learning may well be the same
        assert not np.array_equal(other.transform(draw()), fitted.transform(draw()))


def test_random_states_of_the_caller_are_left_alone(make: Make, draw: Draw) -> None:
    np_before = np.random.get_state()[1].copy()  # noqa: NPY002 - the global state is the subject
    torch_before = torch.get_rng_state()
    make(random_state=None).fit(draw(20))
    assert_array_equal(np.random.get_state()[1], np_before)  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), torch_before)


def test_labels_given_to_fit_change_nothing(
    tmp_path: Path, make: Make, fitted: Model, draw: Draw
) -> None:
    truth = draw().labels
    assert truth is not None
    wrong = np.roll(truth, 7)
    model = make().fit(draw().with_labels(wrong), wrong)
    assert bytes_of(model, tmp_path / "a") == bytes_of(fitted, tmp_path / "b")


# -- results ---------------------------------------------------------------------------------------


def test_labels_are_those_that_predict_gives(fitted: Model, draw: Draw) -> None:
    model = fitted
    check_result(model, draw())
    distances = model.centre_distances(draw())
    assert distances.shape == (40, K)
    assert np.isfinite(distances).all()
    assert_array_equal(distances.argmin(axis=1), model.labels_)
    if isinstance(model, SoftClusterer):
        shares = model.predict_proba(draw())
        assert (shares >= 0).all()
        np.testing.assert_allclose(shares.sum(axis=1), 1, atol=1e-5)


def test_features_have_names_and_are_those_that_were_clustered(fitted: Model, draw: Draw) -> None:
    model = fitted
    features = model.transform(draw())
    assert features.dtype == np.float32
    names = model.get_feature_names_out()
    assert len(names) == len(set(names)) == features.shape[1] == sum(model.feature_widths_)
    assert_array_equal(model.embedding_, features)


def test_samples_do_not_depend_on_their_company(fitted: Model, draw: Draw) -> None:
    features = fitted.transform(draw())
    assert_array_equal(fitted.transform(draw().take(range(7))), features[:7])
    order = np.random.default_rng(0).permutation(40)
    turned = draw().take(order)
    assert_array_equal(fitted.predict(turned), fitted.labels_[order])
    # Of narrow layers, the place of a row among others may change the last bit.
    np.testing.assert_allclose(fitted.transform(turned), features[order], atol=1e-6, rtol=1e-5)


def test_views_are_known_by_their_names(fitted: Model, draw: Draw) -> None:
    turned = {name: draw()[name] for name in reversed(draw().names)}
    assert_array_equal(fitted.predict(turned), fitted.labels_)


def test_new_samples_are_assigned(fitted: Model, draw: Draw) -> None:
    labels = fitted.predict(draw(25))
    assert labels.shape == (25,)
    assert 0 <= labels.min() <= labels.max() < K


def test_a_model_comes_back_from_disk_as_it_was(
    method: Method, tmp_path: Path, fitted: Model, draw: Draw
) -> None:
    model = fitted
    written = bytes_of(model, tmp_path / "a")
    loaded = load_model(tmp_path / "a")
    assert type(loaded) is method
    assert loaded.get_params() == model.get_params()
    assert_array_equal(loaded.labels_, model.labels_)
    assert_array_equal(loaded.predict(draw(25)), model.predict(draw(25)))
    assert_array_equal(loaded.transform(draw(25)), model.transform(draw(25)))
    assert_array_equal(loaded.centre_distances(draw(25)), model.centre_distances(draw(25)))
    assert_array_equal(loaded.get_feature_names_out(), model.get_feature_names_out())
    for name in method.saved_results:
        assert getattr(loaded, name) == getattr(model, name)
    assert bytes_of(loaded, tmp_path / "b") == written


def test_a_fitted_model_can_be_copied(fitted: Model, draw: Draw) -> None:
    model = fitted
    for copied in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert_array_equal(copied.predict(draw()), model.labels_)


# -- history ---------------------------------------------------------------------------------------


class Witness(Callback):
    """Keeps what it is told."""

    def on_start(self, info: RunInfo) -> None:
        self.info, self.seen, self.ended = info, list[Record](), False

    def on_record(self, record: Record) -> None:
        self.seen.append(record)

    def on_end(self) -> None:
        self.ended = True


def test_the_history_is_whole_and_finite(method: Method, make: Make, draw: Draw) -> None:
    witness = Witness()
    model = make().fit(draw(), callbacks=[witness])
    assert witness.seen == model.history_
    assert witness.ended
    assert witness.info.method == method.method_name
    assert witness.info.total_epochs == len(epochs_of(model))
    json.dumps(model.history_, allow_nan=False)
    by_phase: dict[str, list[int]] = {}
    for record in epochs_of(model):
        by_phase.setdefault(record["phase"], []).append(record["epoch"])
        assert math.isfinite(record["loss"])
        for value in record.values():
            if isinstance(value, float | list):
                assert np.isfinite(value).all()
    assert all(numbers == list(range(1, len(numbers) + 1)) for numbers in by_phase.values())


# -- data at the edge ------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [10, 2 * BATCH + 1], ids=["less-than-a-batch", "last-batch-of-one"])
def test_any_number_of_samples(n: int, make: Make, draw: Draw) -> None:
    data = draw(n)
    check_result(make().fit(data), data)


@pytest.mark.parametrize("n_views", [1, 2, 3])
def test_any_number_of_views(method: Method, n_views: int, make: Make, draw: Draw) -> None:
    data = draw(30, (6, 5, 7)[:n_views])
    try:
        model = make().fit(data)
    except (DataError, SettingError):
        assert n_views == 1  # a method may be one of pairs by its nature, and then says so
        return
    check_result(model, data)
    assert model.view_names_ == data.names
    assert model.n_features_in_ == sum(data.widths)


def test_data_larger_than_the_memory_budget(make: Make, tiny: dict[str, Any], draw: Draw) -> None:
    data = draw(520)  # more than two blocks of features, and than a window of rows
    few_steps = {"batch_size": 200} if "batch_size" in tiny else {}
    model = make(memory_budget=2e-5, **few_steps).fit(data)
    check_result(model, data)
    assert model.embedding_ is None
    whole = model.set_params(memory_budget=2.0).transform(data)
    streamed = model.set_params(memory_budget=2e-5).transform(data)
    assert_array_equal(whole, streamed)


def test_one_cluster_is_allowed(make: Make, draw: Draw) -> None:
    try:
        model = make(n_clusters=1).fit(draw(20))
    except (DataError, SettingError):
        return  # contrast of clusters has nothing to contrast
    assert_array_equal(model.labels_, np.zeros(20))


def test_whole_numbers_and_both_kinds_of_real_ones(make: Make, draw: Draw) -> None:
    counts = [np.rint(10 * view).astype(np.int16) for view in draw(30).arrays]
    kinds = (np.int16, np.float32, np.float64)
    models = [make().fit([view.astype(kind) for view in counts]) for kind in kinds]
    for model in models[1:]:
        assert_array_equal(model.labels_, models[0].labels_)
        np.testing.assert_allclose(model.embedding_, models[0].embedding_, atol=1e-5)


def test_a_constant_column_is_no_obstacle(make: Make, draw: Draw) -> None:
    views = {name: view.copy() for name, view in draw(30).views.items()}
    views["view1"][:, 2] = 7.5
    model = make().fit(views)
    check_result(model, MultiView(views))
    assert any("constant" in note for note in model.notes_)


def test_fewer_different_samples_than_clusters(make: Make) -> None:
    """A cluster stays empty, or shares its samples with no reason: that must not stop a fit."""
    data = MultiView({"a": np.eye(2)[[0, 1] * 10], "b": np.diag([1.0, 2.0])[[0, 1] * 10]})
    model = make().fit(data)
    check_result(model, data)
    for kind in (0, 1):
        assert len(set(model.labels_[kind::2])) == 1


def test_values_that_are_no_numbers_are_refused(make: Make, fitted: Model, draw: Draw) -> None:
    views = {name: view.copy() for name, view in draw(30).views.items()}
    views["view2"][4, 1] = np.nan
    for work in (make().fit, fitted.predict):
        with pytest.raises(DataError, match=r"'view2'.* NaN.*sample"):
            work(views)


def test_a_missing_view_is_refused_or_understood(
    method: Method, make: Make, fitted: Model, draw: Draw
) -> None:
    views = {name: view.copy() for name, view in draw(30).views.items()}
    views["view2"][4] = np.nan
    if getattr(method, "accepts_missing", False):
        check_result(make().fit(views), MultiView(views))
        return
    for work in (make().fit, fitted.predict):
        with pytest.raises(DataError, match=r"'view2'.* NaN"):
            work(views)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_both_precisions(
    method: Method,
    precision: Literal["fp32", "bf16"],
    make: Make,
    fitted: Model,
    tiny: dict[str, Any],
    draw: Draw,
) -> None:
    if "precision" not in tiny:
        assert not _learns(method)
        assert fitted.precision_ == "fp32"
        return
    model = make(precision=precision).fit(draw(30))
    check_result(model, draw(30))
    assert model.precision_ == precision
    assert {p.dtype for p in model.networks_.parameters()} == {torch.float32}


# -- scikit-learn ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_scikit_learn_accepts_the_estimator(make: Make, draw: Draw) -> None:
    try:
        make().fit(draw(20, (6,)))
    except (DataError, SettingError) as refusal:
        pytest.skip(f"it takes no single table: {refusal}")
    model = make(random_state=None)
    # scikit-learn takes all that have `predict_proba` for classifiers with a column for each of the
    # classes of its data; a clusterer has one for each of as many clusters as were asked for. The
    # test after this one sees to sparse data in its place. And it wants blobs told apart, which
    # networks that name the clusters cannot learn in two epochs; quality has tests of its own.
    names = (
        "check_estimator_sparse_array",
        "check_estimator_sparse_matrix",
        "check_clustering",
    )
    excused = dict.fromkeys(
        names if hasattr(model, "predict_proba") else (), "no classifier, and hardly trained"
    )
    results = check_estimator(model, on_skip=None, expected_failed_checks=excused)
    skipped = {r["check_name"] for r in results if r["status"] == "skipped"}
    assert skipped <= {"check_array_api_input"}  # needs an environment variable of scipy
    others = [r for r in results if r["check_name"] not in skipped | excused.keys()]
    assert all(r["status"] == "passed" for r in others)
    assert len(results) > 40


@pytest.mark.parametrize("container", [scipy.sparse.csr_array, scipy.sparse.csc_matrix])
def test_sparse_tables_are_as_good_as_others(make: Make, draw: Draw, container: Any) -> None:
    dense = [np.asarray(draw(20)[name]) for name in draw(20).names]
    for table in dense:
        table[table < np.median(table)] = 0
    model = make().fit([container(table) for table in dense])
    expected = make().fit(dense)
    assert np.array_equal(model.labels_, expected.labels_)
    assert np.array_equal(model.predict([container(table) for table in dense]), model.labels_)
    if hasattr(model, "predict_proba"):
        shares = model.predict_proba([container(table) for table in dense])
        assert shares.shape == (20, model.n_clusters)
        np.testing.assert_allclose(shares.sum(axis=1), 1, rtol=1e-5)
