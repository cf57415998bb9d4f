"""The silhouette against hand-computed cases and scikit-learn in float64."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.io
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_digits, make_blobs
from sklearn.metrics import silhouette_samples

from dwcl.clustering import silhouette as module
from dwcl.clustering.silhouette import SilhouetteResult, silhouette
from dwcl.errors import DataError, SettingError


def run(x, labels, **options) -> SilhouetteResult:
    return silhouette(torch.as_tensor(x), torch.as_tensor(labels), **options)


def assert_agrees(x, labels, **options) -> None:
    """Compare with scikit-learn's float64 on the very same numbers."""
    found = run(x, labels, **options)
    expected = silhouette_samples(np.asarray(x, dtype=np.float64), np.asarray(labels))
    np.testing.assert_allclose(found.samples.numpy(), expected, rtol=0, atol=1e-5)
    assert found.mean == pytest.approx(expected.mean(), abs=1e-5)


def test_four_samples_on_a_line() -> None:
    found = run([[0.0], [1.0], [10.0], [12.0]], [7, 7, -1, -1])
    # a = 1, 1, 2, 2 and b = 11, 10, 9.5, 11.5
    expected = [10 / 11, 9 / 10, 7.5 / 9.5, 9.5 / 11.5]
    assert found.samples.tolist() == pytest.approx(expected)
    assert found.mean == pytest.approx(sum(expected) / 4)
    assert found.n_used == 4


def test_a_misplaced_sample_is_negative() -> None:
    found = run([[0.0], [2.0], [9.0], [10.0]], [0, 0, 0, 1])
    # the third: a = (9 + 7) / 2, b = 1
    assert float(found.samples[2]) == pytest.approx((1 - 8) / 8)
    assert float(found.samples[3]) == 0.0  # alone in its cluster


def test_one_cluster_or_only_single_samples() -> None:
    x = torch.randn((5, 2), generator=torch.Generator().manual_seed(0))
    assert run(x, [3] * 5).mean == 0.0
    assert run(x, [3] * 5).samples.tolist() == [0.0] * 5
    assert run(x, [4, 3, 2, 1, 0]).samples.tolist() == [0.0] * 5
    assert run([[1.0]], [0]).mean == 0.0


def test_coinciding_samples_in_two_clusters() -> None:
    assert run(np.full((6, 2), 0.1, dtype=np.float32), [0, 0, 0, 1, 1, 1]).mean == 0.0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("n", "d", "k"), [(300, 20, 4), (1500, 2, 7), (90, 300, 3), (100, 3, 40)])
def test_agreement(n: int, d: int, k: int, seed: int, dtype: type) -> None:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d)) + 2 * rng.normal(size=(k, d))[np.arange(n) % k]
    assert_agrees(x.astype(dtype), rng.permutation(np.arange(n) % k))


@pytest.mark.parametrize("block_rows", [1, 7, 64, 5000])
def test_blocks_of_any_size(block_rows: int, monkeypatch) -> None:
    monkeypatch.setattr(module, "COLUMNS", 50)
    x, labels = make_blobs(400, 5, centers=4, random_state=0)
    assert_agrees(x.astype(np.float32), labels, block_rows=block_rows)


HARD = {
    "tight": lambda rng, c: c + 1e-3 * rng.normal(size=c.shape),
    "offset": lambda rng, c: c + 0.3 * rng.normal(size=c.shape) + 1e4,
    "duplicates": lambda rng, c: c + rng.integers(0, 2, size=(len(c), 1)),
    "near duplicates": lambda rng, c: (
        c + rng.integers(0, 2, size=(len(c), 1)) + 1e-4 * rng.normal(size=c.shape)
    ),
    "outlier": lambda rng, c: (
        c + 1e-2 * rng.normal(size=c.shape) + 1e3 * (np.arange(len(c)) == 0)[:, None]
    ),
    "tiny": lambda rng, c: (c + rng.normal(size=c.shape)) * 1e-25,
    "huge": lambda rng, c: (c + rng.normal(size=c.shape)) * 1e22,
    "along a line": lambda rng, c: c + rng.normal(size=(len(c), 1)),
}


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("name", HARD)
def test_agreement_in_float32_on_hard_data(name: str, mixed: bool) -> None:
    rng = np.random.default_rng(0)
    truth = np.arange(600) % 5
    x = HARD[name](rng, 3 * rng.normal(size=(5, 30))[truth]).astype(np.float32)
    labels = np.where(rng.random(600) < 0.1, rng.integers(0, 5, 600), truth) if mixed else truth
    assert_agrees(x, labels)


def test_a_cluster_of_copies_in_the_place_of_a_foreign_outlier() -> None:
    """The mean distance to such a cluster is 0, and the length of the outlier great."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(100, 10)).astype(np.float32)
    x[0] += 100
    x[60:] = x[0]
    labels = np.repeat([0, 1], [60, 40])
    assert_agrees(x, labels)
    assert float(run(x, labels).samples[0]) == pytest.approx(-1.0)


def test_agreement_on_real_data(shared_data) -> None:
    assert_agrees(*load_digits(return_X_y=True))
    file = scipy.io.loadmat(shared_data / "HW.mat")
    for view in ("X1", "X3", "X4"):
        assert_agrees(file[view].astype(np.float32), file["Y"].ravel().astype(np.int64))


@given(
    values=st.lists(st.tuples(*[st.integers(-4, 4)] * 2), min_size=4, max_size=30),
    seed=st.integers(0, 5),
    k=st.integers(2, 4),
    dtype=st.sampled_from([np.float32, np.float64]),
)
def test_agreement_on_grids(values, seed: int, k: int, dtype: type) -> None:
    x = np.array(values, dtype=dtype)
    labels = np.random.default_rng(seed).integers(0, k, len(x))
    if 2 <= len(np.unique(labels)) < len(x):
        assert_agrees(x, labels)


@pytest.mark.parametrize("seed", range(3))
def test_order_place_scale_and_names_have_no_part(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, labels = rng.normal(size=(200, 6)), rng.integers(0, 4, 200)
    plain = run(x, labels)
    order = rng.permutation(200)
    torch.testing.assert_close(run(x[order], labels[order]).samples, plain.samples[order])
    torch.testing.assert_close(run(3 * x - 5, labels).samples, plain.samples)
    torch.testing.assert_close(run(x, 100 - 7 * labels).samples, plain.samples)


def test_close_pairs_are_the_reason_for_the_second_look(monkeypatch) -> None:
    """Without it, copies far from the mean of their cluster come out wrong."""
    rng = np.random.default_rng(0)
    x = (10 * rng.normal(size=(2, 50))[rng.integers(0, 2, 200)]).astype(np.float32)
    labels = rng.integers(0, 2, 200)
    assert_agrees(x, labels)

    def single_precision(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        lengths = left.square().sum(1, keepdim=True) + right.square().sum(1)
        return (lengths - 2 * left @ right.T).clamp(min=0).sqrt()

    monkeypatch.setattr(module, "_precise_distances", single_precision)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        assert_agrees(x, labels)


def test_a_budget_takes_a_seeded_choice() -> None:
    x, labels = make_blobs(500, 3, centers=3, random_state=0)
    one, two, other = (
        run(x, labels, budget=100, generator=torch.Generator().manual_seed(s)) for s in (0, 0, 1)
    )
    assert one.n_used == len(one.samples) == 100
    assert torch.equal(one.samples, two.samples)
    assert not torch.equal(one.samples, other.samples)
    assert one.mean == pytest.approx(run(x, labels).mean, abs=0.1)
    chosen = torch.randperm(500, generator=torch.Generator().manual_seed(0))[:100].sort().values
    assert torch.equal(one.samples, run(x[chosen], labels[chosen]).samples)
    assert run(x, labels, budget=500).n_used == 500


def test_gradients_and_low_precision_of_the_caller_do_not_reach_in() -> None:
    x, labels = make_blobs(200, 3, centers=3, random_state=0)
    x = torch.as_tensor(x, dtype=torch.float32).requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = run(x, labels)
    assert not found.samples.requires_grad
    assert torch.equal(found.samples, run(x.detach(), labels).samples)


@pytest.mark.parametrize(
    ("x", "labels", "options", "error", "match"),
    [
        (torch.zeros(4), [0] * 4, {}, DataError, "table of rows × features"),
        (torch.full((4, 1), torch.nan), [0] * 4, {}, DataError, "hold the value nan"),
        (torch.zeros(4, 1), [0.0] * 4, {}, DataError, "torch.float32; whole numbers"),
        (torch.zeros(4, 1), [0] * 3, {}, DataError, r"shape \(3,\), but there are 4 samples"),
        (torch.zeros(4, 1), [0] * 4, {"budget": 2}, SettingError, "4 samples .* budget of 2"),
        (torch.zeros(4, 1), [0] * 4, {"budget": 0}, SettingError, "budget = 0"),
        (torch.zeros(4, 1), [0] * 4, {"block_rows": 0}, SettingError, "block_rows = 0"),
    ],
)
def test_what_has_no_silhouette(x, labels, options, error, match) -> None:
    with pytest.raises(error, match=match):
        run(x, labels, **options)
