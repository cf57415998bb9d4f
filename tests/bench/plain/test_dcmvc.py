"""The plain version of DCMVC computes what the engine computes."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import dwcl.bench.plain.dcmvc
import dwcl.losses
from dwcl.bench.methods import take_turns
from dwcl.bench.plain import get_plain
from dwcl.bench.plain.dcmvc import (
    centre_contrast,
    cosine_kmeans,
    first_centres,
    neighbour_contrast,
    neighbour_graph,
)
from dwcl.clustering import cosine
from dwcl.streams import RandomStreams

TINY: dict[str, Any] = {
    "encoder": (12,), "latent": 8, "n_neighbours": 4, "n_init": 3, "learning_rate": 1e-3,
    "n_clusters": 3, "precision": "fp32", "threads": 1, "centre_weight": 0.5,
    "neighbour_weight": 0.5,
}  # fmt: skip


def rows(b: int, d: int, seed: int) -> torch.Tensor:
    return torch.randn(b, d, generator=torch.Generator().manual_seed(seed))


def test_the_contrasts_by_hand() -> None:
    q, u = torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([[1.0, 0.0], [0.6, 0.8]])
    labels = torch.tensor([0, 1])
    assert float(centre_contrast(q, u, labels, 2, 0.5)) == pytest.approx(0.155414, abs=1e-6)
    assert float(centre_contrast(q, u, labels, 3, 0.5)) == pytest.approx(0.155421, abs=1e-6)
    z_v = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.6, 0.8]])
    z = torch.tensor([[2.0, 0.0], [1.2, 1.6], [0.28, 0.96]])
    related = torch.tensor([[1, 1, 0], [1, 1, 0], [0, 0, 1]]).bool()
    labels = torch.tensor([0, 0, 1])
    found = neighbour_contrast(z, z_v, related, labels[:, None] == labels, 0.5, 0.25)
    assert float(found) == pytest.approx(1.043462, abs=2e-6)
    alike = torch.ones(3, 3, dtype=torch.bool)
    found = neighbour_contrast(z, z_v, related, alike, 0.5, 0.25)
    assert float(found) == pytest.approx(-8.592 / 3, abs=2e-6)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("b", "k"), [(1, 2), (7, 3), (20, 10)])
def test_the_contrasts_are_the_engine_s(b: int, k: int, seed: int) -> None:
    z, z_v, x = (rows(b, 5, 3 * seed + part) for part in range(3))
    labels = torch.randint(k, (b,), generator=torch.Generator().manual_seed(seed))
    by_centre, present = dwcl.losses.centre_contrast(z, z_v[None], labels, k, 0.4)
    expected = by_centre.sum() / present.sum()
    torch.testing.assert_close(centre_contrast(z, z_v, labels, k, 0.4), expected)
    related = neighbour_graph(x, 3)
    same = labels[:, None] == labels
    near = related.clone().fill_diagonal_(False)
    expected = dwcl.losses.neighbour_contrast(z, z_v[None], near[None], labels, 0.4, 0.3).mean()
    found = neighbour_contrast(z, z_v, related, same, 0.4, 0.3)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_the_graph_of_points_on_a_line() -> None:
    graph = neighbour_graph(torch.tensor([[0.0], [1.0], [3.0], [7.0]]), 2)
    joined = [[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 1], [0, 0, 1, 1]]
    assert torch.equal(graph, torch.tensor(joined).bool())


@pytest.mark.parametrize("seed", range(3))
def test_k_means_finds_clusters_as_good_as_the_engine_s(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    x = rows(4, 6, seed).repeat_interleave(15, 0) + 0.3 * rows(60, 6, seed + 10)
    labels = cosine_kmeans(x, 4, 10, generator)
    expected = cosine.cosine_kmeans(x, 4, n_init=10, generator=generator)
    same, theirs = labels[:, None] == labels, expected.labels[:, None] == expected.labels
    assert torch.equal(same, theirs)


def test_k_means_of_samples_that_are_all_alike_and_of_as_many_clusters() -> None:
    generator = torch.Generator().manual_seed(0)
    assert cosine_kmeans(torch.ones(5, 2), 2, 2, generator).unique().tolist() == [0]
    assert len(cosine_kmeans(rows(5, 4, 0), 5, 5, generator).unique()) == 5


def test_first_centres_are_far_from_each_other() -> None:
    directions = torch.eye(3, dtype=torch.float64).repeat(7, 1)
    for seed in range(5):
        chosen = first_centres(directions, 3, torch.Generator().manual_seed(seed))
        assert sorted(i % 3 for i in chosen) == [0, 1, 2]


@pytest.mark.parametrize("graph", ["full", "batch"])
@pytest.mark.parametrize(("n", "widths"), [(30, (4,)), (41, (3, 9)), (60, (2, 5, 3))])
def test_both_come_to_the_same_losses_when_they_take_turns(
    n: int, widths: tuple[int, ...], graph: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Starts of k-means are drawn in ways of their own, so the engine's are given to both."""

    def engine_s(x: torch.Tensor, k: int, n_init: int, generator: torch.Generator) -> torch.Tensor:
        drawn = RandomStreams(0).torch("kmeans", "common")
        return cosine.cosine_kmeans(x, k, n_init=n_init, generator=drawn).labels

    monkeypatch.setattr(dwcl.bench.plain.dcmvc, "cosine_kmeans", engine_s)
    settings = TINY | {"graph": graph}
    turns = take_turns(get_plain("dcmvc"), n, widths, epochs=5, settings=settings)
    for phase in ("pretrain", "contrast"):
        ours, theirs = zip(*turns.losses[phase], strict=True)
        assert len(ours) == 5
        assert ours == pytest.approx(theirs, rel=1e-5)
    assert turns.losses["pretrain"][0][0] > turns.losses["pretrain"][-1][0]
