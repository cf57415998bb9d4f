"""k-means by mini-batches against k-means of the whole."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor

from dwcl.clustering import minibatch
from dwcl.clustering.distances import assign
from dwcl.clustering.kmeans import kmeans
from dwcl.clustering.minibatch import cluster, minibatch_kmeans
from dwcl.clustering.silhouette import silhouette
from dwcl.clustering.tables import JoinedTable, joined, nbytes
from dwcl.errors import DataError, SettingError


class Rows:
    """A table that hands out rows, and notes how many at most."""

    def __init__(self, x: Tensor) -> None:
        self.x = x
        self.shape = x.shape
        self.most = 0

    def __getitem__(self, rows: Any) -> Tensor:
        found = self.x[rows].clone()
        self.most = max(self.most, len(found))
        return found

    def __len__(self) -> int:
        return len(self.x)


@pytest.fixture
def small_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minibatch, "SAMPLE_ROWS", 200)
    monkeypatch.setattr(minibatch, "SAMPLE_ROWS_PER_CLUSTER", 10)
    monkeypatch.setattr(minibatch, "ROWS", 128)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def groups(n: int, k: int, d: int, spread: float, seed: int) -> Tensor:
    g = generator(seed)
    centres = torch.randn(k, d, generator=g)
    return centres[torch.randint(k, (n,), generator=g)] + spread * torch.randn(n, d, generator=g)


@pytest.mark.usefixtures("small_sample")
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("spread", [0.1, 0.5])
@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_inertia_is_near_that_of_the_whole(seed: int, spread: float, offset: float) -> None:
    x = groups(3000, 6, 8, spread, seed) + offset
    table = Rows(x)
    ours = minibatch_kmeans(table, 6, generator=generator(seed))
    whole = kmeans(x, 6, generator=generator(seed))
    assert ours.inertia <= 1.01 * whole.inertia
    assert table.most == 200  # no more is ever asked for at once
    found = assign(x, ours.centres)
    assert torch.equal(found.labels, ours.labels)
    assert ours.inertia == pytest.approx(float(found.distances.double().square().sum()), rel=1e-5)


@pytest.mark.usefixtures("small_sample")
@pytest.mark.parametrize("seed", range(3))
def test_more_passes_never_raise_the_inertia(seed: int) -> None:
    x = groups(2000, 5, 4, 1.0, seed)
    inertias = [
        minibatch_kmeans(x, 5, max_passes=p, tol=0, generator=generator(seed)).inertia
        for p in (1, 2, 4, 8)
    ]
    for before, after in pairwise(inertias):
        assert after <= before * (1 + 1e-6)


@pytest.mark.usefixtures("small_sample")
def test_clusters_are_numbered_as_they_appear_and_the_seed_decides() -> None:
    x = groups(1000, 4, 3, 0.5, 0)
    one, two = (minibatch_kmeans(x, 4, generator=generator(1)) for _ in range(2))
    assert torch.equal(one.labels, two.labels)
    assert torch.equal(one.centres, two.centres)
    firsts = [int((one.labels == c).nonzero()[0]) for c in range(4)]
    assert firsts == sorted(firsts)
    # One pass shows the seed; many would bring different starts to the same rest.
    other, same = (
        minibatch_kmeans(x, 4, max_passes=1, generator=generator(seed)).centres for seed in (2, 1)
    )
    assert not torch.equal(other, same)


@pytest.mark.usefixtures("small_sample")
def test_fewer_different_rows_than_clusters_leave_the_last_ones_empty() -> None:
    x = torch.tensor([[0.0], [5.0]]).repeat(400, 1)
    found = minibatch_kmeans(x, 3, generator=generator())
    assert found.labels.unique().tolist() == [0, 1]
    assert found.centres.flatten().tolist() == [0, 5, 0]
    assert found.inertia == 0


def test_a_small_table_is_taken_as_a_whole() -> None:
    x = groups(300, 3, 4, 0.5, 0)
    whole = kmeans(x, 3, generator=generator())
    assert torch.equal(minibatch_kmeans(x, 3, generator=generator()).centres, whole.centres)


@pytest.mark.usefixtures("small_sample")
def test_the_budget_decides_which_way_it_goes() -> None:
    x = groups(1000, 3, 4, 0.5, 0)
    assert nbytes(x) == 16_000
    exact = kmeans(x, 3, n_init=2, generator=generator())
    for budget in (None, 16_000):
        found = cluster(x, 3, n_init=2, generator=generator(), budget=budget)
        assert torch.equal(found.centres, exact.centres)
    table = Rows(x)
    cluster(table, 3, n_init=2, generator=generator(), budget=15_999)
    assert table.most == 200


def test_bad_settings_are_refused() -> None:
    x = torch.rand(10, 2)
    with pytest.raises(DataError, match="11 clusters were asked of 10 samples"):
        minibatch_kmeans(x, 11, generator=generator())
    with pytest.raises(SettingError, match="n_init = 0"):
        minibatch_kmeans(x, 2, n_init=0, generator=generator())


def test_tables_are_joined_where_rows_are_asked_for() -> None:
    a, b = torch.rand(9, 2), torch.rand(9, 3)
    assert isinstance(joined([a, b]), Tensor)
    both = joined([Rows(a), Rows(b)])
    assert isinstance(both, JoinedTable)
    assert tuple(both.shape) == (9, 5)
    assert len(both) == 9
    assert torch.equal(both[2:4], torch.cat([a, b], dim=1)[2:4])
    assert torch.equal(both[torch.tensor([5, 1])], torch.cat([a, b], dim=1)[[5, 1]])


def test_the_silhouette_asks_for_no_more_rows_than_its_budget() -> None:
    x = groups(500, 3, 4, 0.5, 0)
    labels = torch.arange(500) % 3
    table = Rows(x)
    by_table = silhouette(table, labels, budget=100, generator=generator())
    assert table.most == 100
    assert by_table.mean == silhouette(x, labels, budget=100, generator=generator()).mean
    assert silhouette(Rows(x), labels).mean == silhouette(x, labels).mean


def test_the_first_sample_keeps_to_a_quarter_of_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    original = minibatch.kmeans

    def noted(x: torch.Tensor, *args: Any, **how: Any) -> Any:
        sizes.append(4 * x.numel())
        return original(x, *args, **how)

    monkeypatch.setattr(minibatch, "kmeans", noted)
    x = torch.rand(2000, 4, generator=generator())  # 32,000 bytes
    for budget, rows in ((32_000 - 64, 499), (6_400, 256)):
        minibatch.cluster(x, 3, n_init=2, generator=generator(), budget=budget)
        assert sizes.pop() == 16 * rows
    minibatch.cluster(x, 40, n_init=2, generator=generator(), budget=6_400)
    assert sizes.pop() == 16 * 8 * 40
