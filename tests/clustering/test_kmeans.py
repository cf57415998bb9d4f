"""k-means against hand-computed cases, a plain loop, and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.io
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits, load_iris, load_wine, make_blobs

from dwcl.clustering import kmeans as kmeans_module
from dwcl.clustering.kmeans import KMeansResult, assign, kmeans
from dwcl.errors import DataError, SettingError


def run(x, k, seed=0, **options) -> KMeansResult:
    return kmeans(torch.as_tensor(x), k, generator=torch.Generator().manual_seed(seed), **options)


def plain_inertia(x, labels) -> float:
    x, labels = np.asarray(x, float), np.asarray(labels)
    return sum(
        ((x[labels == j] - x[labels == j].mean(0)) ** 2).sum() for j in np.unique(labels).tolist()
    )


def appearance_order(labels) -> list[int]:
    return list(dict.fromkeys(labels.tolist()))


def test_two_pairs_on_a_line() -> None:
    found = run([[0.0], [1.0], [10.0], [12.0]], 2)
    assert found.labels.tolist() == [0, 0, 1, 1]
    assert found.centres.tolist() == [[0.5], [11.0]]
    assert found.inertia == pytest.approx(0.5 + 2.0)
    assert found.labels.dtype == torch.int64


def test_one_cluster_is_the_mean() -> None:
    x = torch.tensor([[1.0, 2.0], [3.0, 6.0], [5.0, 1.0]])
    found = run(x, 1)
    assert found.centres[0].tolist() == [3.0, 3.0]
    assert found.labels.tolist() == [0, 0, 0]
    assert found.inertia == pytest.approx(5 + 9 + 8)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_as_many_clusters_as_samples(dtype: torch.dtype) -> None:
    x = torch.rand((40, 3), generator=torch.Generator().manual_seed(5), dtype=dtype)
    found = run(x, 40)
    assert found.labels.tolist() == list(range(40))
    assert torch.equal(found.centres, x)
    assert found.inertia == 0.0
    assert found.centres.dtype == dtype


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("offset", [0.0, 0.1, 1e5])
def test_fewer_different_samples_than_clusters(dtype: torch.dtype, offset: float) -> None:
    points = torch.tensor([[0.1, 0.7], [5.3, 1.1], [-3.3, 2.2]], dtype=dtype) + offset
    rows = [0, 0, 1, 2, 1, 0, 2, 2, 2, 1, 1]
    found = run(points[rows], 6)
    assert found.labels.tolist() == rows
    assert found.inertia == 0.0
    assert torch.equal(found.centres, points[[0, 1, 2, 0, 0, 0]])


def test_all_samples_equal() -> None:
    found = run(np.full((9, 4), 0.3), 3)
    assert found.labels.tolist() == [0] * 9
    assert found.inertia == 0.0
    assert found.centres.tolist() == [[0.3] * 4] * 3


DATA = {
    "iris": (load_iris().data, 3),
    "wine": (load_wine().data, 3),
    "digits": (load_digits().data, 10),
    "blobs": (make_blobs(1500, 8, centers=30, random_state=0)[0], 30),
    "uniform": (np.random.default_rng(0).random((1000, 2)), 20),
    "gaussian": (np.random.default_rng(1).normal(size=(500, 50)), 8),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", DATA)
def test_inertia_is_no_worse_than_that_of_scikit_learn(name: str, dtype: type) -> None:
    x, k = DATA[name]
    x = x.astype(dtype)
    for seed in range(2):
        reference = KMeans(k, n_init=10, random_state=seed).fit(x)
        found = run(x, k, seed)
        assert found.inertia <= 1.001 * reference.inertia_
        assert found.inertia == pytest.approx(plain_inertia(x, found.labels), rel=1e-4)


def test_inertia_on_views_of_real_data(shared_data) -> None:
    views = scipy.io.loadmat(shared_data / "MSRC_v1.mat")["fea"].ravel()
    for view in views:
        x = np.asarray(view, dtype=np.float32)
        reference = KMeans(7, n_init=10, random_state=1).fit(x)
        assert run(x, 7, seed=1).inertia <= 1.001 * reference.inertia_


@pytest.mark.parametrize("seed", range(3))
def test_the_result_is_a_fixed_point(seed: int) -> None:
    x = torch.as_tensor(load_digits().data)
    found = run(x, 10, seed, tol=0.0)
    means = torch.stack([x[found.labels == j].mean(0) for j in range(10)])
    torch.testing.assert_close(found.centres, means)
    again = assign(x, found.centres)
    assert torch.equal(again.labels, found.labels)
    assert found.inertia == pytest.approx(float(again.distances.square().sum()))


def test_same_seed_same_bytes_and_another_seed_another_search() -> None:
    x = torch.as_tensor(DATA["uniform"][0])
    one, two = run(x, 20, seed=3), run(x, 20, seed=3)
    assert torch.equal(one.labels, two.labels)
    assert one.centres.numpy().tobytes() == two.centres.numpy().tobytes()
    assert (one.inertia, one.n_iter) == (two.inertia, two.n_iter)
    others = [run(x, 20, seed, n_init=1, max_iter=2).inertia for seed in range(4)]
    assert len(set(others)) > 1


def test_the_global_random_state_has_no_part() -> None:
    x = torch.as_tensor(DATA["uniform"][0][:200])
    before = torch.get_rng_state()
    run(x, 5)
    assert torch.equal(torch.get_rng_state(), before)


def test_blocks_of_rows_change_nothing() -> None:
    x, k = torch.as_tensor(DATA["blobs"][0]), 30
    whole, pieces = run(x, k), run(x, k, block_rows=97)
    assert torch.equal(whole.labels, pieces.labels)
    torch.testing.assert_close(whole.centres, pieces.centres)


@pytest.mark.parametrize("seed", range(3))
def test_order_of_rows_does_not_change_the_partition_of_clear_clusters(seed: int) -> None:
    x, truth = make_blobs(300, 4, centers=6, cluster_std=0.3, random_state=seed)
    order = np.random.default_rng(seed).permutation(300)
    found, moved = run(x, 6, seed), run(x[order], 6, seed)
    assert found.inertia == pytest.approx(moved.inertia)
    for labels, true in ((found.labels, truth), (moved.labels, truth[order])):
        pairs = set(zip(labels.tolist(), true.tolist(), strict=True))
        assert len(pairs) == 6  # one cluster for each blob
        assert appearance_order(labels) == list(range(6))


def test_a_large_offset_in_float32_costs_nothing() -> None:
    x = DATA["blobs"][0].astype(np.float32).round(1)  # multiples that survive the offset, nearly
    shifted = (x.astype(np.float64) + 1000).astype(np.float32)
    near, far = run(x, 30), run(shifted, 30)
    assert far.inertia == pytest.approx(near.inertia, rel=1e-3)


def test_tight_clusters_far_apart_in_float32() -> None:
    rng = np.random.default_rng(0)
    corners = np.array([[0, 0], [1e4, 0], [0, 1e4]])
    x = np.repeat(corners, 50, axis=0) + rng.normal(size=(150, 2))
    found = run(x.astype(np.float32), 3)
    assert found.labels.tolist() == [0] * 50 + [1] * 50 + [2] * 50
    assert found.inertia == pytest.approx(plain_inertia(x, found.labels), rel=1e-3)


def test_large_data_are_searched_by_a_sample(monkeypatch) -> None:
    monkeypatch.setattr(kmeans_module, "SEARCH_ROWS", 300)
    monkeypatch.setattr(kmeans_module, "SEARCH_ROWS_PER_CLUSTER", 10)
    x, k = DATA["blobs"]
    found = run(x, k)
    assert found.inertia <= 1.001 * KMeans(k, n_init=10, random_state=0).fit(x).inertia_
    assert torch.equal(found.labels, run(x, k).labels)


def test_other_types_are_taken_as_numbers() -> None:
    assert run(torch.tensor([[0], [1], [9]]), 2).labels.tolist() == [0, 0, 1]
    half = torch.tensor([[0.0], [1.0], [9.0]], dtype=torch.bfloat16)
    assert run(half, 2).centres.dtype == torch.float32


def test_gradients_and_low_precision_of_the_caller_do_not_reach_in() -> None:
    x = torch.as_tensor(DATA["blobs"][0].astype(np.float32)).requires_grad_()
    plain = run(x.detach(), 30)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = run(x, 30)
    assert not found.centres.requires_grad
    assert torch.equal(found.centres, plain.centres)


@given(
    values=st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), min_size=1, max_size=25),
    k=st.integers(1, 6),
    seed=st.integers(0, 3),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
def test_properties_on_grids_with_ties_and_duplicates(values, k, seed, dtype) -> None:
    x = torch.tensor(values, dtype=dtype)
    k = min(k, len(x))
    found = run(x, k, seed, n_init=3)
    n_different = len(set(values))
    n_used = len(set(found.labels.tolist()))
    assert n_used == min(k, n_different)
    assert appearance_order(found.labels) == list(range(n_used))
    of_point = {}
    for point, label in zip(values, found.labels.tolist(), strict=True):
        assert of_point.setdefault(point, label) == label
    assert torch.equal(found.centres[n_used:], found.centres[:1].repeat(k - n_used, 1))
    assert torch.equal(assign(x, found.centres).labels, found.labels)
    assert found.inertia <= plain_inertia(x, [0] * len(x)) + 1e-6


@pytest.mark.parametrize(
    ("x", "options", "error", "match"),
    [
        (torch.zeros(3), {}, DataError, r"shape \(3,\); a table of rows × features"),
        (torch.zeros(0, 2), {}, DataError, r"shape \(0, 2\)"),
        (torch.zeros(3, 2, dtype=torch.complex64), {}, DataError, "Complex data not supported"),
        (torch.tensor([[0.0, 1.0], [0.0, torch.nan]]), {}, DataError, "nan .row 1, column 1."),
        (torch.tensor([[torch.inf], [0.0]]), {}, DataError, "inf .row 0, column 0."),
        (torch.zeros(1, 2), {}, DataError, "2 clusters were asked of 1 samples"),
        (torch.eye(4), {"n_clusters": 0}, SettingError, "n_clusters = 0; at least one"),
        (torch.eye(4), {"n_init": 0}, SettingError, "n_init = 0; at least one"),
        (torch.eye(4), {"max_iter": 0}, SettingError, "max_iter = 0; at least one"),
        (torch.eye(4), {"tol": -1.0}, SettingError, "tol = -1.0; zero or a positive"),
        (torch.eye(4), {"tol": float("nan")}, SettingError, "tol = nan"),
        (torch.eye(4), {"block_rows": 0}, SettingError, "block_rows = 0; a block"),
    ],
)
def test_what_cannot_be_clustered(x, options, error, match) -> None:
    with pytest.raises(error, match=match):
        kmeans(x, **{"n_clusters": 2, "generator": torch.Generator(), **options})
