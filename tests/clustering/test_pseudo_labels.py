"""Labels that networks learn from."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from dwcl.clustering.kmeans import kmeans
from dwcl.clustering.pseudo_labels import pseudo_labels, unit_range
from dwcl.errors import DataError


def test_columns_reach_from_0_to_1() -> None:
    x = torch.tensor([[1.0, 5.0, -2.0], [3.0, 5.0, 0.0], [2.0, 5.0, 2.0]])
    assert unit_range(x).tolist() == [[0, 0, 0], [1, 0, 0.5], [0.5, 0, 1]]
    assert unit_range(x[:1]).tolist() == [[0, 0, 0]]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_no_unit_of_a_column_has_influence(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(60, 4, generator=generator, dtype=torch.float64, requires_grad=True)

    def labels(x: torch.Tensor) -> torch.Tensor:
        stream = torch.Generator().manual_seed(seed)
        return pseudo_labels(x, 3, n_init=3, generator=stream)

    found = labels(x)
    assert found.dtype == torch.int64
    assert not unit_range(x).requires_grad
    assert torch.equal(labels(x * torch.tensor([1.0, 1e4, 1e-3, 7.0]) + 2), found)
    plain = kmeans(unit_range(x), 3, n_init=3, generator=torch.Generator().manual_seed(seed))
    assert torch.equal(found, plain.labels)


def test_a_weak_column_that_tells_the_clusters_apart_is_heard() -> None:
    generator = torch.Generator().manual_seed(0)
    truth = torch.arange(80) % 2
    noise = torch.randn(80, generator=generator)
    x = torch.stack([noise, 1e-3 * truth], dim=1)
    found = pseudo_labels(x, 2, n_init=3, generator=generator)
    assert torch.equal(found, truth)


def test_features_must_be_finite() -> None:
    with pytest.raises(DataError, match="nan"):
        unit_range(torch.tensor([[torch.nan]]))


class InFile:
    """Stands for features in a file: blocks of rows can be had, and that is all."""

    def __init__(self, x: torch.Tensor) -> None:
        self.shape = x.shape
        self._x = x

    def __getitem__(self, rows: Any) -> torch.Tensor:
        return self._x[rows]

    def __len__(self) -> int:
        return len(self._x)


@pytest.mark.parametrize("budget", [None, 10**9, 1])
def test_features_in_a_file_give_the_labels_of_those_in_memory(
    budget: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dwcl.clustering.pseudo_labels.ROWS", 7)
    x = torch.randn(60, 4, generator=torch.Generator().manual_seed(0)) * torch.tensor(
        [1.0, 1e4, 1e-3, 0.0]
    )
    x[::2] += 5 * x.std(0)

    def labels(features: Any, budget: int | None) -> torch.Tensor:
        stream = torch.Generator().manual_seed(1)
        return pseudo_labels(features, 2, n_init=3, generator=stream, budget=budget)

    assert torch.equal(labels(InFile(x), budget), labels(x, budget))
    assert torch.equal(labels(InFile(x), budget), torch.arange(60) % 2)
