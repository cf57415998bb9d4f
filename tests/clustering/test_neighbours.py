"""Neighbours against plain loops over all pairs."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from dwcl.clustering import neighbours as neighbours_module
from dwcl.clustering.neighbours import (
    batch_graph,
    nearest_neighbours,
    neighbour_shares,
    neighbours_in_table,
)
from dwcl.errors import DataError


def points(n: int, d: int, seed: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def on_a_line(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)[:, None]


def slow_neighbours(
    x: Tensor, m: int, measure: str, rows: list[int], among: list[int]
) -> list[list[int]]:
    def far(i: int, j: int) -> float:
        if measure == "euclidean":
            return sum((p - q) ** 2 for p, q in zip(x[i].tolist(), x[j].tolist(), strict=True))
        return -sum(p * q for p, q in zip(x[i].tolist(), x[j].tolist(), strict=True))

    return [
        sorted((j for j in sorted(among) if j != i), key=lambda j, i=i: far(i, j))[:m] for i in rows
    ]


# -- nearest neighbours ----------------------------------------------------------------------------


def test_neighbours_on_a_line() -> None:
    x = on_a_line(0, 1, 3, 7)
    assert nearest_neighbours(x, 1).tolist() == [[1], [0], [1], [2]]
    assert nearest_neighbours(x, 3)[2].tolist() == [1, 0, 3]
    assert nearest_neighbours(x, 1, measure="dot").tolist() == [[1], [3], [3], [2]]


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("measure", ["euclidean", "dot"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("block_rows", [None, 1, 7])
def test_they_are_those_of_all_pairs(seed, measure, dtype, block_rows) -> None:
    x = points(40, 3, seed, dtype)
    everyone = list(range(40))
    found = nearest_neighbours(x, 6, measure=measure, block_rows=block_rows)
    assert found.dtype == torch.int64
    assert found.tolist() == slow_neighbours(x.double(), 6, measure, everyone, everyone)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("measure", ["euclidean", "dot"])
def test_some_rows_among_some_samples(seed, measure, monkeypatch) -> None:
    monkeypatch.setattr(neighbours_module, "EXACT_ELEMENTS", 50)
    x = points(30, 2, seed)
    drawn = torch.randperm(30, generator=torch.Generator().manual_seed(seed))
    rows, among = drawn[:12], drawn[6:20]  # some of the rows are candidates, others are not
    found = nearest_neighbours(x, 5, measure=measure, rows=rows, among=among)
    assert found.tolist() == slow_neighbours(x, 5, measure, rows.tolist(), among.tolist())


def test_copies_are_neighbours_and_come_in_the_order_of_the_data() -> None:
    x = on_a_line(5, 0, 5, 5, 9)
    assert nearest_neighbours(x, 3).tolist()[:4] == [[2, 3, 4], [0, 2, 3], [0, 3, 4], [0, 2, 4]]
    assert nearest_neighbours(torch.ones(4, 2), 2).tolist() == [[1, 2], [0, 2], [0, 1], [0, 1]]


@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_close_samples_far_from_the_origin_in_float32(offset: float) -> None:
    x = (torch.arange(20.0)[:, None] * torch.tensor([[0.25, 0.5]])) + offset
    found = nearest_neighbours(x[torch.randperm(20, generator=torch.Generator().manual_seed(0))], 1)
    order = torch.randperm(20, generator=torch.Generator().manual_seed(0))
    assert all(abs(int(order[i]) - int(order[j])) == 1 for i, (j,) in enumerate(found.tolist()))


def test_no_neighbours_and_all_neighbours() -> None:
    assert nearest_neighbours(torch.ones(1, 2), 0).shape == (1, 0)
    x = points(4, 2, 0)
    assert sorted(nearest_neighbours(x, 3)[0].tolist()) == [1, 2, 3]
    other = nearest_neighbours(x, 2, rows=torch.tensor([0]), among=torch.tensor([2, 3]))
    assert sorted(other[0].tolist()) == [2, 3]
    assert nearest_neighbours(x, 2, rows=torch.tensor([], dtype=torch.int64)).shape == (0, 2)


@pytest.mark.parametrize(
    ("m", "options", "match"),
    [
        (4, {}, "4 neighbours were asked of samples that have 3 others"),
        (-1, {}, "-1 neighbours"),
        (2, {"among": torch.tensor([0, 1])}, "have 1 others"),
        (3, {"rows": torch.tensor([2]), "among": torch.tensor([0, 1])}, "have 2 others"),
    ],
)
def test_more_neighbours_than_samples(m, options, match) -> None:
    with pytest.raises(DataError, match=match):
        nearest_neighbours(points(4, 2, 0), m, **options)


# -- the graph of a batch --------------------------------------------------------------------------


def test_the_graph_of_four_points_on_a_line() -> None:
    neighbours = nearest_neighbours(on_a_line(0, 1, 3, 7), 1)  # k = 2 counts the sample itself
    graph = batch_graph(neighbours, torch.arange(4))
    edges = [(i, j) for i, j in graph.nonzero().tolist() if i < j]
    assert edges == [(0, 1), (1, 2), (2, 3)]
    assert torch.equal(graph, graph.T)
    assert not graph.diagonal().any()


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("m", [0, 1, 4])
def test_it_is_a_part_of_the_whole_graph(seed: int, m: int) -> None:
    n = 30
    neighbours = nearest_neighbours(points(n, 2, seed), m)
    whole = torch.zeros(n, n, dtype=torch.bool)
    for i, found in enumerate(neighbours.tolist()):
        for j in found:
            whole[i, j] = whole[j, i] = True
    drawn = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    for b in (1, 7, n):
        index = drawn[:b]
        assert torch.equal(batch_graph(neighbours, index), whole[index][:, index])


# -- shares among the neighbours -------------------------------------------------------------------


def slow_shares(x: Tensor, m: int, guard: float) -> list[list[float]]:
    table = []
    for one in x.tolist():
        far = [sum((p - q) ** 2 for p, q in zip(one, o, strict=True)) for o in x.tolist()]
        ordered = sorted(far)
        bound = ordered[m] + guard
        room = m * bound - sum(ordered[:m])
        table.append([max(0.0, bound - value) / room for value in far])
    return table


def test_shares_on_a_line_by_hand() -> None:
    found = neighbour_shares(on_a_line(0, 1, 3, 6), 2)
    expected = [
        [9 / 17, 8 / 17, 0, 0],
        [3 / 7, 4 / 7, 0, 0],
        [0, 5 / 14, 9 / 14, 0],
        [0, 0, 16 / 41, 25 / 41],
    ]
    torch.testing.assert_close(
        found, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-9
    )
    assert found.sum(1).tolist() == pytest.approx([1.0] * 4)
    assert [round(found[0, 1].item(), 4), round(found[1, 0].item(), 4)] == [0.4706, 0.4286]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_shares_of_samples_that_coincide(dtype: torch.dtype) -> None:
    x = torch.tensor([[0.1, 0.7]], dtype=dtype).repeat(4, 1).requires_grad_()
    found = neighbour_shares(x, 2)
    assert found.tolist() == [pytest.approx([0.5] * 4)] * 4
    found.square().sum().backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_shares_with_copies_in_a_batch_of_unit_rows(dtype: torch.dtype) -> None:
    x = torch.nn.functional.normalize(points(20, 16, 0, dtype), dim=1)
    x = torch.cat([x, x[:1], x[:1], x[:1]]).requires_grad_()
    found = neighbour_shares(x, 3)
    copies = [0, 20, 21, 22]
    assert found[copies][:, copies].flatten().tolist() == pytest.approx([1 / 3] * 16)
    (found * points(23, 23, 1, dtype)).sum().backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()
    assert x.grad.abs().max() < 1e3


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("m", [1, 3, 5])
def test_shares_are_the_definition_by_plain_loops(seed: int, m: int) -> None:
    x = points(6, 3, seed)
    found = neighbour_shares(x, m, guard=1e-3)
    torch.testing.assert_close(found, torch.tensor(slow_shares(x, m, 1e-3), dtype=torch.float64))
    assert (found.diagonal()[:, None] >= found).all()


def test_shares_carry_gradients_and_have_no_order() -> None:
    x = points(7, 3, 4).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: neighbour_shares(x, 3), x)
    order = torch.tensor([3, 6, 0, 1, 5, 2, 4])
    torch.testing.assert_close(
        neighbour_shares(x[order], 3), neighbour_shares(x, 3)[order][:, order]
    )
    torch.testing.assert_close(neighbour_shares(x + 5, 3), neighbour_shares(x, 3))


@pytest.mark.parametrize("m", [0, 4])
def test_shares_need_more_samples_than_neighbours(m: int) -> None:
    with pytest.raises(DataError, match="in a batch of 4 samples; from 1 to 3"):
        neighbour_shares(points(4, 2, 0), m)


class OnDisk:
    """Stands for a table in a file, and counts the rows that are asked for at once."""

    def __init__(self, x: Tensor) -> None:
        self.x, self.shape, self.most = x, x.shape, 0

    def __getitem__(self, rows: Any) -> Tensor:
        found = self.x[rows]
        self.most = max(self.most, len(found))
        return found

    def __len__(self) -> int:
        return len(self.x)


@pytest.mark.parametrize("rows", [1, 2, 7, 20, 25])
@pytest.mark.parametrize("m", [0, 1, 5, 59])
def test_a_table_is_searched_by_blocks_like_a_tensor(rows: int, m: int) -> None:
    x = points(60, 4, seed=rows, dtype=torch.float32)
    x[10], x[50] = x[3], x[3]  # copies in other blocks
    table = OnDisk(x)
    found = neighbours_in_table(table, m, budget=4 * 4 * (rows * 7 // 3 + 1))
    assert torch.equal(found, nearest_neighbours(x, m))
    assert table.most == rows


def test_a_table_within_the_budget_is_taken_as_a_whole() -> None:
    x = points(20, 3, seed=0, dtype=torch.float32)
    table = OnDisk(x)
    found = neighbours_in_table(table, 4, budget=20 * 3 * 4)
    assert table.most == 20
    assert torch.equal(found, nearest_neighbours(x, 4))


def test_equally_near_samples_of_other_blocks_come_in_their_order() -> None:
    x = on_a_line(*[0.0, 1.0] * 6).float()
    found = neighbours_in_table(OnDisk(x), 3, budget=4 * 8)
    assert found[0].tolist() == [2, 4, 6]
    assert found[11].tolist() == [1, 3, 5]


def test_a_search_can_be_broken_off() -> None:
    class StopError(Exception):
        pass

    def stop() -> None:
        raise StopError

    x = points(20, 3, seed=0, dtype=torch.float32)
    for budget in (10, 10**6):
        with pytest.raises(StopError):
            neighbours_in_table(x, 4, budget=budget, watch=stop)


def test_more_neighbours_than_others_are_refused_of_a_table_too() -> None:
    for budget in (10, 10**6):
        with pytest.raises(DataError, match="20 neighbours were asked"):
            neighbours_in_table(points(20, 3, seed=0), 20, budget=budget)


def test_a_graph_can_be_kept_in_half_of_the_memory() -> None:
    near = nearest_neighbours(points(30, 3, seed=0), 4)
    index = torch.tensor([4, 29, 0, 11, 17])
    assert torch.equal(batch_graph(near.int(), index), batch_graph(near, index))
    assert not batch_graph(near[:, :0], index).any()
