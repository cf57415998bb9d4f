"""Graphs of soft assignments, and similarities that follow them."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from dwcl.losses import calibration, label_graphs, survivors

PAIR = [(0, 1)]


def tensor(rows: list[list[float]]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def graph(q: Tensor, other: Tensor, threshold: float = 0.8) -> Tensor:
    return label_graphs([q, other], PAIR, threshold)[0]


def loss(z: Tensor, other: Tensor, graph: Tensor) -> float:
    return calibration([z, other], PAIR, graph[None]).mean().item()


def test_two_orthogonal_samples_without_survivors() -> None:
    eye = torch.eye(2, dtype=torch.float64)
    assert eye.softmax(1).tolist()[0] == pytest.approx([0.731059, 0.268941], abs=1e-6)
    assert loss(eye, eye, eye) == pytest.approx(0.313261, abs=1e-6)


def test_two_samples_of_one_cluster() -> None:
    q, eye = tensor([[0.95, 0.05], [0.9, 0.1]]), torch.eye(2, dtype=torch.float64)
    found = graph(q, q)
    assert found.flatten().tolist() == pytest.approx(
        [0.537634, 0.462366, 0.462366, 0.537634], abs=1e-6
    )
    assert loss(eye, eye, found) == pytest.approx(0.775627, abs=1e-6)
    assert (found - eye).square().mean().item() == pytest.approx(0.213782, abs=1e-6)
    assert survivors(torch.stack([found, eye])).tolist() == [1, 0]


def test_graphs_are_not_symmetric() -> None:
    q, other = tensor([[0.95, 0.05], [0.2, 0.8]]), tensor([[0.9, 0.1], [0.92, 0.08]])
    assert (q @ other.T)[0, 1].item() == pytest.approx(0.878)
    assert (q @ other.T)[1, 0].item() == pytest.approx(0.26)
    found = graph(q, other)
    assert found.flatten().tolist() == pytest.approx([0.532481, 0.467519, 0, 1], abs=1e-6)
    assert not torch.allclose(graph(other, q), found)
    assert survivors(found[None]).item() == pytest.approx(0.5)


def test_the_diagonal_counts_1_whatever_the_products_are() -> None:
    q = tensor([[0.95, 0.05], [0.1, 0.9]])
    assert torch.equal(graph(q, q), torch.eye(2, dtype=torch.float64))
    assert torch.equal(graph(q, q.flip(1)).diagonal() > 0, torch.tensor([True, True]))
    # Far from each other, a sample with itself is still above the threshold.
    assert graph(tensor([[1.0, 0.0]]), tensor([[0.0, 1.0]])).tolist() == [[1.0]]


@pytest.mark.parametrize("threshold", [0.0, 0.3, 1.0])
def test_graphs_are_the_definition_by_plain_loops(threshold: float) -> None:
    generator = torch.Generator().manual_seed(0)
    qs = torch.randn(3, 5, 4, generator=generator, dtype=torch.float64).softmax(2)
    pairs = [(0, 1), (2, 0), (1, 1)]
    found = label_graphs(list(qs), pairs, threshold)
    for p, (v, w) in enumerate(pairs):
        for i in range(5):
            row = [1.0 if i == j else float(qs[v, i] @ qs[w, j]) for j in range(5)]
            row = [value if value >= threshold else 0.0 for value in row]
            expected = [value / sum(row) for value in row]
            assert found[p, i].tolist() == pytest.approx(expected, rel=1e-12)


def test_the_range_of_the_contrast_without_survivors() -> None:
    eye = torch.eye(256, dtype=torch.float64)
    same = torch.zeros_like(eye)
    same[:, 0] = 1
    assert loss(same, same, eye) == pytest.approx(5.545177, abs=1e-4)
    assert loss(eye, eye, eye) == pytest.approx(4.5519, abs=1e-4)
    # Own pair 1, all others −1, as products of anything whatever.
    assert loss(2 * eye - 1, eye, eye) == pytest.approx(3.5698, abs=1e-4)


@pytest.mark.parametrize("detached", [True, False])
def test_the_gradients_of_graphs_and_calibration(detached: bool) -> None:
    generator = torch.Generator().manual_seed(3)
    qs = torch.randn(2, 4, 3, generator=generator, dtype=torch.float64)
    zs = torch.randn(2, 4, 3, generator=generator, dtype=torch.float64)

    def total(qs: Tensor, zs: Tensor) -> Tensor:
        graphs = label_graphs(list(qs.softmax(2)), [(0, 1), (1, 1)], 0.3)
        return calibration(list(zs), [(0, 1), (1, 1)], graphs.detach() if detached else graphs)

    assert 0 < survivors(label_graphs(list(qs.softmax(2)), PAIR, 0.3)).item() < 1
    if detached:
        qs, zs = qs.requires_grad_(), zs.requires_grad_()
        (found,) = torch.autograd.grad(total(qs, zs).sum(), zs)
        assert torch.autograd.gradcheck(lambda zs: total(qs, zs), (zs,))
        assert found.abs().max() > 0
    else:
        assert torch.autograd.gradcheck(total, (qs.requires_grad_(), zs.requires_grad_()))


def test_samples_without_pairs_come_to_nothing() -> None:
    graphs = label_graphs([torch.full((4, 2), 0.5)], [], 0.8)
    assert graphs.shape == (0, 4, 4)
    assert calibration([torch.zeros(4, 3)], [], graphs).shape == (0, 4)
    assert survivors(graphs).shape == (0,)


def test_it_has_a_path_on_another_device() -> None:
    zs = [torch.empty(5, 3, device="meta", requires_grad=True) for _ in range(2)]
    graphs = label_graphs(zs, PAIR, 0.8)
    calibration(zs, PAIR, graphs).sum().backward()
    assert survivors(graphs).shape == (1,)
    assert all(z.grad is not None for z in zs)
