"""k-means by angles against hand-computed cases and a plain loop."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from dwcl.clustering.cosine import (
    CosineKMeansResult,
    _Race,
    cosine_cluster,
    cosine_distances,
    cosine_kmeans,
)
from dwcl.errors import DataError, SettingError


def run(x, k: int, seed: int = 0, **options) -> CosineKMeansResult:
    generator = torch.Generator().manual_seed(seed)
    return cosine_kmeans(torch.as_tensor(x), k, generator=generator, **options)


def fan(angles: list[float], each: int, seed: int, d: int = 2) -> tuple[Tensor, Tensor]:
    """Samples around directions in a plane, of lengths that differ by a factor of 100."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(angles)), each)
    turned = np.asarray(angles)[labels] + rng.normal(0, 0.05, len(labels))
    lengths = 10 ** rng.uniform(-1, 1, len(labels))
    x = np.zeros((len(labels), d))
    x[:, 0], x[:, 1] = lengths * np.cos(turned), lengths * np.sin(turned)
    return torch.as_tensor(x), torch.as_tensor(labels)


def slow_lloyd(x: Tensor, centres: Tensor, max_iter: int, enough: float) -> tuple[float, Tensor]:
    """One start, sample by sample: the least sum of distances on the way, and its centres."""

    def cosine(a: Tensor, b: Tensor) -> float:
        lengths = float(a.norm() * b.norm())
        return float(a @ b) / lengths if lengths else 0.0

    least, best, before = math.inf, centres, None
    for _ in range(max_iter):
        far = [[1 - cosine(row, c) for c in centres] for row in x]
        labels = [min(range(len(centres)), key=row.__getitem__) for row in far]
        total = sum(map(min, far))
        if total < least:
            least, best = total, centres
        members = [[row for row, own in zip(x, labels, strict=True) if own == c] for c in range(3)]
        after = torch.stack(
            [torch.stack(m).mean(0) if m else torch.zeros_like(x[0]) for m in members]
        )
        shift = sum(1 - cosine(a, b) for a, b in zip(centres, after, strict=True))
        if labels == before or shift <= enough:
            break
        centres, before = after, labels
    return least, best


def test_a_centre_is_the_plain_mean() -> None:
    found = run([[2.0, 0.0], [0.0, 1.0]], 1)
    assert found.labels.tolist() == [0, 0]
    # the start is one of the two samples; what is best is the mean that comes of it
    assert found.centres.tolist() == [[1.0, 0.5]]
    cosines = 1 - cosine_distances(torch.tensor([[1.0, 0.0]]), found.centres)
    assert cosines.item() == pytest.approx(0.894427, abs=1e-6)
    assert found.distance == pytest.approx(2 - 3 / math.sqrt(5))


def test_distances_by_hand() -> None:
    x = torch.tensor([[2.0, 0.0], [0.0, 0.1], [-3.0, 0.0], [0.0, 0.0]], dtype=torch.float64)
    centres = torch.tensor([[5.0, 0.0], [1.0, 1.0], [0.0, 0.0], [5.0, 0.0]], dtype=torch.float64)
    root = math.sqrt(0.5)
    expected = [
        [0, 1 - root, 1, 0],
        [1, 1 - root, 1, 1],
        [2, 1 + root, 1, 2],
        [1, 1, 1, 1],
    ]
    torch.testing.assert_close(
        cosine_distances(x, centres), torch.tensor(expected, dtype=torch.float64)
    )


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_directions_are_found_whatever_the_lengths(seed: int, dtype: torch.dtype) -> None:
    x, labels = fan([0.0, 1.0, 2.0, 3.5], 15, seed, d=6)
    found = run(x.to(dtype), 4, seed)
    assert torch.equal(found.labels, labels)
    assert found.centres.dtype == dtype
    again = run(x.to(dtype), 4, seed, block_rows=7)
    assert torch.equal(again.labels, labels)
    for scale in (1e-3, 1e3):
        scaled = run(x.to(dtype) * scale, 4, seed, tol=0)
        assert torch.equal(scaled.labels, labels)


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
@pytest.mark.parametrize(("max_iter", "enough"), [(1, 0.0), (3, 0.0), (50, 0.0), (50, 0.05)])
def test_the_race_is_many_plain_loops(seed: int, max_iter: int, enough: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(25, 3, generator=generator, dtype=torch.float64)
    x[3] = 0
    starts = x[torch.stack([torch.randperm(25, generator=generator)[:3] for _ in range(4)])]
    directions = torch.nn.functional.normalize(x, dim=1)
    race = _Race(x, directions, 6)
    slow = [slow_lloyd(x, start, max_iter, enough) for start in starts]
    for start, (_, expected) in zip(starts, slow, strict=True):
        torch.testing.assert_close(race.run(start[None], max_iter, enough)[0], expected)
    best, _ = race.run(starts, max_iter, enough)
    # two starts may end in the same clusters under other numbers
    total = cosine_distances(x, best).amin(1).sum().item()
    assert total == pytest.approx(min(least for least, _ in slow), rel=1e-12)


def test_a_cluster_that_loses_its_samples_goes_to_the_origin() -> None:
    x = torch.tensor([[1.0, 0.0], [1.0, 0.1], [-1.0, 0.05]], dtype=torch.float64)
    starts = torch.tensor([[[1.0, 0.0], [0.0, -1.0], [1.0, 0.1]]], dtype=torch.float64)
    race = _Race(x, torch.nn.functional.normalize(x, dim=1), None)
    _, after, _ = race._step(starts)
    assert after[0, 0].tolist() == [1.0, 0.0]
    # −0.05 to the second, below that to the others: the third sample is there
    assert after[0, 1].tolist() == [-1.0, 0.05]
    _, gone, _ = race._step(torch.tensor([[[1.0, 0.0], [1.0, -5.0], [-1.0, 0.0]]]).double())
    assert gone[0, 1].tolist() == [0.0, 0.0]


@given(
    values=st.lists(st.tuples(st.integers(-2, 2), st.integers(-2, 2)), min_size=1, max_size=20),
    k=st.integers(1, 5),
    seed=st.integers(0, 3),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
def test_properties_on_grids_with_ties_and_zeros(values, k, seed, dtype) -> None:
    x = torch.tensor(values, dtype=dtype)
    k = min(k, len(x))
    found = run(x, k, seed, n_init=3)
    assert found.labels.min() >= 0
    assert found.labels.max() < k
    assert list(dict.fromkeys(found.labels.tolist())) == sorted(set(found.labels.tolist()))
    assert torch.equal(cosine_distances(x, found.centres).argmin(1), found.labels)
    of_point = {}
    for point, label in zip(values, found.labels.tolist(), strict=True):
        assert of_point.setdefault(point, label) == label
    assert found.distance >= 0
    assert torch.equal(run(x, k, seed, n_init=3).labels, found.labels)


def test_identical_samples_and_as_many_clusters_as_samples() -> None:
    same = run(torch.full((6, 3), 0.3), 3)
    assert same.labels.tolist() == [0] * 6
    assert same.distance == pytest.approx(0, abs=1e-6)
    x, _ = fan([0.0, 1.0, 2.0], 1, 0)
    assert run(x, 3).labels.tolist() == [0, 1, 2]


def test_more_starts_are_not_worse_and_seeds_decide() -> None:
    x = torch.randn(200, 8, generator=torch.Generator().manual_seed(0))
    one, ten = run(x, 6, n_init=1), run(x, 6, n_init=10)
    assert ten.distance <= one.distance + 1e-9
    assert torch.equal(run(x, 6).labels, ten.labels)


def test_gradients_and_low_precision_of_the_caller_do_not_reach_in() -> None:
    x = torch.randn(60, 5, generator=torch.Generator().manual_seed(1)).requires_grad_()
    plain = run(x.detach(), 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = run(x, 4)
    assert not found.centres.requires_grad
    assert torch.equal(found.centres, plain.centres)


def test_what_cannot_be_clustered() -> None:
    with pytest.raises(DataError, match="2 clusters were asked of 1 samples"):
        run(torch.ones(1, 2), 2)
    with pytest.raises(SettingError, match="n_init = 0"):
        run(torch.ones(3, 2), 2, n_init=0)
    with pytest.raises(DataError, match="2 features and the centres 3"):
        cosine_distances(torch.ones(3, 2), torch.ones(2, 3))
    with pytest.raises(DataError, match="nan"):
        run(torch.tensor([[math.nan], [1.0]]), 1)


class OnDisk:
    """Stands for a table in a file, and keeps how many rows were asked for at once."""

    def __init__(self, x: Tensor) -> None:
        self.x, self.shape, self.asked = x, x.shape, []

    def __getitem__(self, rows) -> Tensor:
        found = self.x[rows]
        self.asked.append(len(found))
        return found

    def __len__(self) -> int:
        return len(self.x)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_large_table_is_clustered_by_passes(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dwcl.clustering.minibatch.ROWS", 50)
    monkeypatch.setattr("dwcl.clustering.minibatch.FEWEST_ROWS", 8)
    x, _ = fan([0.0, 1.3, 2.9, 4.4], 80, seed, d=3)
    x = x.float()[torch.randperm(320, generator=torch.Generator().manual_seed(seed))]
    table = OnDisk(x)
    # 3 · 3840 / 5 bytes are 192 rows; a quarter of these choose the first centres.
    found = cosine_cluster(table, 4, generator=torch.Generator().manual_seed(seed), budget=3840)
    assert max(table.asked) == 50
    whole = run(x, 4, seed)
    assert torch.equal(found.labels, whole.labels)
    assert found.distance == pytest.approx(whole.distance, rel=1e-3)
    distances = cosine_distances(x, found.centres)
    assert torch.equal(distances.argmin(1), found.labels)
    assert found.distance == pytest.approx(float(distances.double().amin(1).sum()), rel=1e-4)
    # The centres follow from all rows: they are means of the labels of the pass before.
    means = torch.stack([x[found.labels == c].mean(0) for c in range(4)])
    torch.testing.assert_close(found.centres, means)


def test_a_table_within_the_budget_is_clustered_as_a_whole() -> None:
    x, _ = fan([0.0, 2.0], 30, 0)
    table = OnDisk(x.float())
    generator = torch.Generator().manual_seed(5)
    found = cosine_cluster(table, 2, generator=generator, budget=60 * 2 * 4 * 5 // 3)
    assert table.asked == [60]
    assert torch.equal(found.centres, run(x.float(), 2, 5).centres)
