"""k-means on the best view's inputs: how the view is chosen, and that the choice is kept."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score, silhouette_score

from dwcl import MultiView, load_model, make_multiview, save_model
from dwcl.data.scaling import Scaling
from dwcl.data.synthetic import best_view
from dwcl.methods.kmeans_best import KMeansBest
from dwcl.training.callbacks import Callback, Record

# The best view is another one each time.
QUALITIES = {"view1": (1.0, 0.4, 0.3), "view2": (0.4, 1.0, 0.3), "view3": (0.3, 0.4, 1.0)}


def views(best: str, seed: int = 0, n: int = 120) -> MultiView:
    how: dict[str, Any] = {"widths": (6, 8, 7), "quality": QUALITIES[best], "noise": 0.2}
    assert best_view(3, **how) == best
    return make_multiview(n, 3, **how, random_state=seed)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("best", QUALITIES)
def test_it_is_k_means_of_the_view_with_the_highest_silhouette(best: str, seed: int) -> None:
    data = views(best, seed)
    model = KMeansBest(3, random_state=seed).fit(data)
    tables = dict(zip(data.names, Scaling.fit(data, "minmax").transform(data), strict=True))
    silhouettes = {}
    for name, table in tables.items():
        reference = KMeans(3, n_init=10, random_state=0).fit(table)
        silhouettes[name] = silhouette_score(table, reference.labels_)
        assert model.view_quality_[name] == pytest.approx(silhouettes[name], abs=5e-3)
    assert model.best_view_ == max(silhouettes, key=silhouettes.__getitem__) == best
    assert_array_equal(model.embedding_, tables[best])
    (assessment,) = model.assessments_
    assert_array_equal(model.labels_, assessment.labels[assessment.best].numpy())
    assert adjusted_rand_score(data.labels, model.labels_) > 0.9


@pytest.mark.parametrize("best", QUALITIES)
def test_the_choice_goes_where_the_model_goes(best: str, tmp_path: Path) -> None:
    data, new = views(best), views(best, seed=1)
    model = KMeansBest(3, n_init=2, random_state=0).fit(data)
    assert int(model.networks_.state_dict()["best"]) == data.names.index(best)
    save_model(model, tmp_path)
    for other in (load_model(tmp_path), copy.deepcopy(model)):
        assert other.best_view_ == best
        assert other.view_quality_ == model.view_quality_
        assert_array_equal(other.predict(new), model.predict(new))
        assert_array_equal(other.transform(data), model.embedding_)
        names = other.get_feature_names_out()
        assert list(names) == [f"{best}_{i}" for i in range(data[best].shape[1])]


def test_what_the_other_views_hold_does_not_matter_for_new_samples() -> None:
    data = views("view2")
    model = KMeansBest(3, n_init=2, random_state=0).fit(data)
    rng = np.random.default_rng(0)
    spoilt = dict(data.views) | {"view1": rng.normal(size=(120, 6))}
    assert_array_equal(model.predict(spoilt), model.labels_)


def test_the_assessment_is_on_record() -> None:
    model = KMeansBest(3, n_init=2, random_state=0).fit(views("view3"))
    (record,) = model.history_
    assert record["event"] == "assessment"
    assert record["iteration"] == 0
    assert record["best_view"] == model.best_view_ == "view3"
    assert record["quality"] == list(model.view_quality_.values())
    assert np.asarray(record["cmi"]).shape == (3, 3)
    assert record["silhouette_samples"] == 120


def test_the_silhouette_is_sampled_above_its_budget_and_that_is_said() -> None:
    exact, sampled = (
        KMeansBest(3, n_init=2, silhouette_budget=budget, random_state=0).fit(views("view1"))
        for budget in (120, 40)
    )
    assert sampled.history_[0]["silhouette_samples"] == 40
    assert sampled.view_quality_ != exact.view_quality_
    assert sampled.view_quality_ == pytest.approx(exact.view_quality_, abs=0.15)


def test_the_order_of_views_does_not_matter() -> None:
    data = views("view2")
    turned = data.select(tuple(reversed(data.names)))
    one, two = (KMeansBest(3, n_init=2, random_state=0).fit(given) for given in (data, turned))
    assert one.view_quality_ == two.view_quality_
    assert_array_equal(one.labels_, two.labels_)


def test_a_fit_broken_at_the_assessment_ends_alike(tmp_path: Path) -> None:
    class Broken(Callback):
        def on_record(self, record: Record) -> None:
            raise RuntimeError("broken on purpose")

    data = views("view3")
    whole = KMeansBest(3, n_init=2, random_state=0).fit(data)
    model = KMeansBest(3, n_init=2, random_state=0)
    with pytest.raises(RuntimeError, match="on purpose"):
        model.fit(data, callbacks=[Broken()], checkpoint=tmp_path)
    model.fit(data, checkpoint=tmp_path)
    assert model.history_ == whole.history_
    assert_array_equal(model.labels_, whole.labels_)


def test_a_narrow_view_of_data_that_are_read_by_blocks_is_held_whole() -> None:
    """The blocks of a reader lie in the same memory in turns; a table of them must not."""
    how: dict[str, Any] = {"widths": (12, 2), "quality": (0.2, 1.0), "noise": 0.1}
    data = make_multiview(900, 2, **how, random_state=0)
    whole, streamed = (
        KMeansBest(2, n_init=3, memory_budget=budget, random_state=0).fit(data)
        for budget in (2.0, 3.2e-5)
    )
    assert whole.best_view_ == streamed.best_view_ == "view2"
    assert_array_equal(streamed.embedding_, whole.embedding_)
    assert adjusted_rand_score(whole.labels_, streamed.labels_) == 1.0
