"""Synthetic views: sizes, the known best view, and what each knob does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.cluster import KMeans
from sklearn.metrics import normalized_mutual_info_score

from dwcl.data.synthetic import (
    SEPARATION,
    best_view,
    cluster_sizes,
    drop_views,
    make_multiview,
    separations,
)
from dwcl.errors import SettingError


def kmeans_scores(data) -> dict[str, float]:
    """NMI of k-means on each raw view with the known clusters."""
    kmeans = KMeans(data.n_label_values, n_init=5, random_state=0)
    return {
        name: normalized_mutual_info_score(data.labels, kmeans.fit_predict(view))
        for name, view in data.views.items()
    }


def test_default_shapes_and_provenance() -> None:
    data = make_multiview()
    assert data.names == ("view1", "view2", "view3")
    assert data.widths == (20, 30, 40)
    assert np.bincount(data.labels).tolist() == [125] * 4
    assert data.provenance.source == "synthetic"
    assert (
        data.provenance.layout[0] == "view1: 20 features, clusters 7.97 standard deviations apart"
    )


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("nonlinear", [0.0, 0.5])
def test_kmeans_ranks_the_views_by_quality(seed: int, nonlinear: float) -> None:
    quality = (0.2, 1.0, 0.55)
    data = make_multiview(
        400, quality=quality, noise=(0.4, 0.1, 0.2), nonlinear=nonlinear, random_state=seed
    )
    scores = kmeans_scores(data)
    assert sorted(scores, key=scores.__getitem__) == ["view1", "view3", "view2"]
    assert scores["view2"] > 0.95
    assert best_view(4, quality=quality, noise=(0.4, 0.1, 0.2)) == "view2"


@pytest.mark.parametrize("seed", range(3))
def test_kmeans_ranks_the_views_by_noise(seed: int) -> None:
    settings = {"quality": 0.5, "noise": (3.0, 1.5, 0.1), "widths": (20, 20, 20)}
    scores = kmeans_scores(make_multiview(random_state=seed, **settings))
    assert sorted(scores, key=scores.__getitem__) == ["view1", "view2", "view3"]
    assert best_view(4, **settings) == "view3"


@pytest.mark.parametrize("seed", range(3))
def test_quality_zero_says_nothing_about_the_clusters(seed: int) -> None:
    settings = {"widths": (10, 10), "noise": 0.1, "random_state": seed}
    data = make_multiview(2000, quality=(0.0, 1.0), **settings)
    assert kmeans_scores(data)["view1"] < 0.01
    means = np.array([data["view1"][data.labels == c].mean(axis=0) for c in range(4)])
    # A mean of 500 samples with variance about 1 per feature lies within 5 / sqrt(500) of zero.
    assert np.abs(means).max() < 5 / np.sqrt(500) * data["view1"].std(axis=0).max()


def test_separation_is_the_mahalanobis_distance() -> None:
    settings = {"widths": (12,), "quality": (0.7,), "noise": (0.8,)}
    data = make_multiview(60_000, 3, random_state=1, **settings)
    x, y = data["view1"], data.labels
    centres = np.array([x[y == c].mean(axis=0) for c in range(3)])
    within = np.cov((x - centres[y]).T)
    expected = separations(3, **settings)["view1"]
    assert expected == pytest.approx(SEPARATION * 0.7 / np.sqrt(1 + 0.64 * 3 / 12))
    for one, other in ((0, 1), (0, 2), (1, 2)):
        step = centres[one] - centres[other]
        assert np.sqrt(step @ np.linalg.solve(within, step)) == pytest.approx(expected, rel=0.03)


def test_given_the_clusters_the_views_are_independent() -> None:
    data = make_multiview(20_000, 2, widths=(3, 4), random_state=0)
    rest = [
        view - np.array([view[data.labels == c].mean(axis=0) for c in range(2)])[data.labels]
        for view in data.arrays
    ]
    cross = np.corrcoef(np.hstack(rest).T)[:3, 3:]
    assert np.abs(cross).max() < 0.04


def test_same_seed_same_bytes_other_seed_others() -> None:
    first = make_multiview(random_state=3)
    assert first.fingerprint() == make_multiview(random_state=np.int64(3)).fingerprint()
    assert (
        first.fingerprint() == make_multiview(random_state=np.random.default_rng(3)).fingerprint()
    )
    assert first.fingerprint() != make_multiview(random_state=4).fingerprint()
    assert make_multiview(random_state=None).fingerprint() != first.fingerprint()


def test_global_random_state_is_left_alone() -> None:
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    make_multiview()
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


def test_a_change_of_one_view_leaves_the_others() -> None:
    one = make_multiview(noise=(0.2, 0.2, 0.2))
    other = make_multiview(noise=(0.2, 0.9, 0.2), nonlinear=(0, 1, 0), widths=(20, 9, 40))
    np.testing.assert_array_equal(one["view1"], other["view1"])
    np.testing.assert_array_equal(one["view3"], other["view3"])


def test_nonlinear_view_is_bounded_by_its_waves() -> None:
    data = make_multiview(noise=0.0, nonlinear=1.0)
    assert all(np.abs(view).max() <= np.sqrt(2) for view in data.arrays)


def test_a_view_may_be_narrower_than_the_clusters_are_many() -> None:
    data = make_multiview(60, 6, widths=(1, 2), quality=1.0)
    assert data.widths == (1, 2)
    assert np.isfinite(np.hstack(data.arrays)).all()


def test_sizes_by_hand() -> None:
    assert cluster_sizes(70, 3, imbalance=0.5).tolist() == [40, 20, 10]
    assert cluster_sizes(10, 3).tolist() == [4, 3, 3]
    assert cluster_sizes(5, 4, imbalance=0.9).tolist() == [2, 1, 1, 1]


@given(st.integers(1, 12), st.integers(0, 300), st.floats(0, 0.99))
def test_sizes_add_up_and_fall(k: int, more: int, imbalance: float) -> None:
    sizes = cluster_sizes(k + more, k, imbalance=imbalance)
    assert sizes.sum() == k + more
    assert sizes.min() >= 1
    assert (np.diff(sizes) <= 0).all()


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"n_samples": 3}, "3 samples in 4 clusters"),
        ({"n_clusters": 0}, "500 samples in 0 clusters"),
        ({"widths": ()}, r"widths are \(\)"),
        ({"widths": (3, 0)}, r"widths are \(3, 0\)"),
        ({"quality": (1, 0.5)}, "2 values of quality came for 3 views"),
        ({"quality": 1.5}, "quality is 1.5; numbers from 0 to 1"),
        ({"noise": -1}, "noise is -1; numbers from 0 upwards"),
        ({"noise": np.nan}, "noise is nan"),
        ({"nonlinear": (0, 0, 2)}, r"nonlinear is \(0, 0, 2\)"),
        ({"imbalance": 1.0}, "imbalance is 1.0"),
    ],
)
def test_settings_out_of_range(settings: dict[str, object], match: str) -> None:
    with pytest.raises(SettingError, match=match):
        make_multiview(**settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("widths", [(3, 4), (2, 3, 4), (2, 2, 2, 2, 2)])
@pytest.mark.parametrize(("rate", "incomplete"), [(0, 0), (0.29, 29), (0.5, 50), (1, 100)])
def test_as_many_samples_as_asked_lose_some_views_and_keep_some(
    seed: int, widths: tuple[int, ...], rate: float, incomplete: int
) -> None:
    data = make_multiview(100, 3, widths=widths, random_state=seed)
    found = drop_views(data, rate, random_state=seed)
    kept = found.observed.sum(axis=1)
    assert kept.min() >= 1
    assert (kept < len(widths)).sum() == incomplete
    for name, there in zip(found.names, found.observed.T, strict=True):
        np.testing.assert_array_equal(found[name][there], data[name][there])
    assert found.labels is data.labels


def test_every_pattern_and_every_view_comes_up_alike() -> None:
    data = make_multiview(6000, 3, widths=(1, 1, 1), random_state=0)
    observed = drop_views(data, 1.0, random_state=1).observed
    np.testing.assert_allclose(observed.mean(axis=0), 0.5, atol=0.03)
    patterns, counts = np.unique(observed, axis=0, return_counts=True)
    assert len(patterns) == 6
    np.testing.assert_allclose(counts / 1000, 1, atol=0.12)


def test_the_seed_decides_what_is_dropped() -> None:
    data = make_multiview(100, 3, random_state=0)
    first, again, other = (drop_views(data, 0.5, random_state=s).observed for s in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_what_cannot_be_dropped() -> None:
    data = make_multiview(10, 3, random_state=0)
    for rate in (-0.1, 1.1, float("nan")):
        with pytest.raises(SettingError, match="a number from 0 to 1 is expected"):
            drop_views(data, rate)
    with pytest.raises(SettingError, match="one view"):
        drop_views(data.select(["view1"]), 0.5)
