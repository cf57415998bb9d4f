"""k-means on all views joined: the plain yardstick."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from dwcl import Checkpoints, MultiView, make_multiview
from dwcl.data.scaling import Scaling
from dwcl.methods.kmeans import KMeansConcat
from dwcl.report.figures import summary_figure
from dwcl.storage.run import read_run, write_run

SEEDS = (0, 1, 2)


def blobs(seed: int, n: int = 120) -> MultiView:
    return make_multiview(n, 4, widths=(6, 5, 7), noise=0.5, random_state=seed)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("scaling", ["minmax", "standard"])
def test_it_is_k_means_of_the_scaled_views_side_by_side(seed: int, scaling: str) -> None:
    data = blobs(seed)
    model = KMeansConcat(4, scaling=scaling, random_state=seed).fit(data)
    table = np.hstack(Scaling.fit(data, scaling).transform(data))
    assert_array_equal(model.embedding_, table)
    reference = KMeans(4, n_init=10, random_state=0).fit(table)
    assert model.inertia_ == pytest.approx(reference.inertia_, rel=1e-4)
    assert adjusted_rand_score(reference.labels_, model.labels_) == 1.0
    assert adjusted_rand_score(data.labels, model.labels_) > 0.95
    means = [table[model.labels_ == c].mean(axis=0) for c in range(4)]
    np.testing.assert_allclose(model.cluster_centers_, means, atol=1e-5)


def test_features_are_named_by_view() -> None:
    model = KMeansConcat(4, n_init=2, random_state=0).fit(blobs(0))
    assert model.feature_widths_ == (6, 5, 7)
    assert list(model.get_feature_names_out()[[0, 5, 6, 17]]) == [
        "view1_0", "view1_5", "view2_0", "view3_6"
    ]  # fmt: skip


def test_one_wide_view_outvotes_several_narrow_ones() -> None:
    """Two views of 3 features see one partition, a view of 60 another, all equally clearly."""
    rng = np.random.default_rng(0)
    one, other = rng.integers(0, 2, 100), rng.integers(0, 2, 100)
    data = {
        name: labels[:, None] + rng.normal(scale=0.2, size=(100, width))
        for name, labels, width in (("a", one, 3), ("b", one, 3), ("c", other, 60))
    }
    labels = KMeansConcat(2, random_state=0).fit_predict(data)
    assert adjusted_rand_score(other, labels) == 1.0
    del data["c"]
    assert adjusted_rand_score(one, KMeansConcat(2, random_state=0).fit_predict(data)) == 1.0


def test_there_is_nothing_to_learn_and_nothing_to_set_about_it(tmp_path: Path) -> None:
    model = KMeansConcat(4, n_init=2, random_state=0)
    assert not {"batch_size", "learning_rate", "precision"} & set(model.get_params())
    model.fit(blobs(0), checkpoint=Checkpoints(tmp_path, every=0, keep=True))
    assert model.history_ == []
    assert model.networks_.state_dict() == {}
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]  # no state that could be lost


def test_data_that_are_read_by_blocks_give_the_same_clusters() -> None:
    data = blobs(0, n=900)
    whole, streamed = (
        KMeansConcat(4, n_init=3, memory_budget=budget, random_state=0).fit(data)
        for budget in (2.0, 3e-5)
    )
    assert streamed.embedding_ is None
    assert_array_equal(streamed.transform(data), whole.embedding_)
    assert adjusted_rand_score(whole.labels_, streamed.labels_) == 1.0


def test_a_run_without_a_history_is_written_read_and_drawn(tmp_path: Path) -> None:
    data = blobs(0)
    model = KMeansConcat(4, n_init=2, random_state=0).fit(data)
    facts = read_run(write_run(tmp_path / "run", model, data, facts={}))
    assert facts["history"] == []
    assert facts["seconds"] == {}
    assert sum(facts["cluster_sizes"]) == 120
    assert model.embedding_ is not None
    figure = summary_figure(model.embedding_, model.labels_, facts)
    assert [axes.get_visible() for axes in figure.axes] == [True, False, False]
