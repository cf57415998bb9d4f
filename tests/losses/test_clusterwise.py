from __future__ import annotations

import math
from typing import get_args

import pytest
import torch
from torch import Tensor

from dwcl.clustering.soft import sharpened
from dwcl.losses import (
    Negatives,
    Similarity,
    balanced_contrast,
    cluster_contrast,
    negative_entropy,
)

PAIRS = [(0, 1), (1, 0), (2, 0), (1, 1)]
MODES = [(s, n) for s in get_args(Similarity) for n in get_args(Negatives)]


def tensor(rows: list[list[float]]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def soft(b: int, k: int, seed: int, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return list(torch.randn(3, b, k, generator=generator, dtype=dtype).softmax(dim=2))


def one_hot(k: int, each: int = 1) -> Tensor:
    return torch.eye(k, dtype=torch.float64).repeat_interleave(each, 0)


def slow_contrast(
    q: Tensor, other: Tensor, temperature: float, similarity: str, negatives: str
) -> list[float]:
    k = q.shape[1]
    columns = [*q.T, *other.T]

    def similar(a: int, c: int) -> float:
        product = float(columns[a] @ columns[c])
        if similarity == "cosine":
            product /= max(float(columns[a].norm()), 1e-8) * max(float(columns[c].norm()), 1e-8)
        return product / temperature

    losses = []
    for a in range(2 * k):
        partner = (a + k) % (2 * k)
        own_view = range(k) if a < k else range(k, 2 * k)
        candidates = range(2 * k) if negatives == "both" else own_view
        total = math.exp(similar(a, partner)) + sum(
            math.exp(similar(a, c)) for c in candidates if c not in (a, partner)
        )
        losses.append(math.log(total) - similar(a, partner))
    return losses


# -- values by hand --------------------------------------------------------------------------------

Q_1, Q_2 = tensor([[0.9, 0.1], [0.2, 0.8]]), tensor([[0.8, 0.2], [0.3, 0.7]])


def mean(qs: list[Tensor], temperature: float = 1.0, **options: str) -> float:
    return cluster_contrast(qs, [(0, 1)], temperature, **options).mean().item()  # type: ignore[arg-type]


def test_two_clusters_of_two_samples() -> None:
    assert mean([Q_1, Q_2]) == pytest.approx(0.784540, abs=1e-6)
    uneven = math.log(2) + negative_entropy([Q_1, Q_2, tensor([[0.9, 0.1], [0.8, 0.2]])])
    assert uneven.tolist() == pytest.approx([0.005008, 0.005008, 0.270438], abs=1e-6)
    assert mean([Q_1, Q_2]) + uneven[:2].sum().item() == pytest.approx(0.794556, abs=2e-6)


def test_sharpened_assignments_of_two_clusters() -> None:
    t_1, t_2 = sharpened(Q_1), sharpened(Q_2)
    assert mean([t_1, t_2], similarity="dot") == pytest.approx(0.664689, abs=1e-6)
    assert mean([t_1, t_2]) == pytest.approx(0.616252, abs=1e-6)
    assert mean([t_1, t_2], 0.5) == pytest.approx(0.310419, abs=1e-6)
    assert negative_entropy([t_1, t_2]).sum().item() == pytest.approx(-1.383942, abs=1e-6)
    swapped = sharpened(Q_2.flip(1))
    assert mean([t_1, swapped], similarity="dot") == pytest.approx(1.414384, abs=1e-6)
    assert mean([t_1, swapped]) == pytest.approx(1.470563, abs=1e-6)
    assert negative_entropy([t_1, swapped]).sum().item() == pytest.approx(-1.383942, abs=1e-6)


def test_negatives_of_the_own_view_alone() -> None:
    q, other = tensor([[0.8, 0.2], [0.3, 0.7]]), tensor([[0.6, 0.4], [0.1, 0.9]])
    assert mean([q, other], negatives="own") == pytest.approx(0.507908, abs=1e-6)
    uneven = (math.log(2) + negative_entropy([q, other])).sum().item()
    assert uneven == pytest.approx(0.050709, abs=1e-6)
    assert mean([q, other], negatives="own") + uneven == pytest.approx(0.558617, abs=1e-6)
    assert balanced_contrast([q, other], [(0, 1)]).tolist() == pytest.approx([0.558617], abs=1e-6)


@pytest.mark.parametrize("k", [2, 5, 10])
def test_perfect_and_uniform_assignments(k: int) -> None:
    crisp, uniform = one_hot(k), torch.full((7, k), 1 / k, dtype=torch.float64)
    assert mean([crisp, crisp]) == pytest.approx(math.log(1 + (2 * k - 2) / math.e))
    assert mean([crisp, crisp], negatives="own") == pytest.approx(math.log(1 + (k - 1) / math.e))
    assert mean([uniform, uniform]) == pytest.approx(math.log(2 * k - 1))
    assert mean([uniform, uniform], similarity="dot") == pytest.approx(math.log(2 * k - 1))
    assert mean([uniform, uniform], negatives="own") == pytest.approx(math.log(k))
    # neither of the two has larger and smaller clusters
    assert negative_entropy([crisp, one_hot(k, 3)]).tolist() == pytest.approx([-math.log(k)] * 2)
    assert negative_entropy([uniform]).item() == pytest.approx(-math.log(k))


def test_published_values_of_perfect_and_uniform_assignments() -> None:
    def crisp(k: int, **options: str) -> float:
        return mean([one_hot(k), one_hot(k)], **options)

    assert [crisp(k) for k in (2, 5, 10)] == pytest.approx([0.551445, 1.371951, 2.031016], abs=1e-6)
    own = [crisp(k, negatives="own") for k in (2, 10)]
    assert own == pytest.approx([0.313262, 1.461150], abs=1e-6)
    fives = [one_hot(7, 5)] * 2  # 35 samples
    assert mean(fives, similarity="dot") == pytest.approx(math.log(1 + 12 * math.exp(-5)))
    assert mean(fives, similarity="dot") == pytest.approx(0.077753, abs=1e-6)
    assert mean(fives) == pytest.approx(1.689090, abs=1e-6)
    assert negative_entropy(fives).sum().item() == pytest.approx(-3.891820, abs=1e-6)
    uniform = [torch.full((4, 3), 1 / 3)] * 2
    assert mean(uniform, negatives="own") == pytest.approx(1.098612, abs=1e-6)


# -- against the definition ------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize(("b", "k"), [(1, 3), (4, 1), (6, 2), (5, 4)])
@pytest.mark.parametrize(("similarity", "negatives"), MODES)
def test_it_is_the_definition_pair_by_pair(
    seed: int, b: int, k: int, similarity: Similarity, negatives: Negatives
) -> None:
    qs = soft(b, k, seed)
    found = cluster_contrast(qs, PAIRS, 0.7, similarity=similarity, negatives=negatives)
    assert found.shape == (len(PAIRS), 2 * k)
    for row, (v, w) in zip(found, PAIRS, strict=True):
        expected = slow_contrast(qs[v], qs[w], 0.7, similarity, negatives)
        assert row.tolist() == pytest.approx(expected, rel=1e-10, abs=1e-12)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_entropy_by_plain_loops(seed: int) -> None:
    qs = soft(5, 4, seed)
    for q, found in zip(qs, negative_entropy(qs).tolist(), strict=True):
        shares = [float(q[:, c].sum()) / 5 for c in range(4)]
        assert found == pytest.approx(sum(p * math.log(p) for p in shares), rel=1e-12)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_balanced_contrast_is_the_sum_of_its_parts(seed: int) -> None:
    qs = soft(6, 3, seed)
    found = balanced_contrast(qs, PAIRS).tolist()
    uneven = [math.log(3) + sum(m * math.log(m) for m in q.mean(0).tolist()) for q in qs]
    for loss, (v, w) in zip(found, PAIRS, strict=True):
        contrast = slow_contrast(qs[v], qs[w], 1.0, "cosine", "own")
        assert loss == pytest.approx(sum(contrast) / 6 + uneven[v] + uneven[w])
    assert torch.autograd.gradcheck(
        lambda *q: balanced_contrast(q, PAIRS), tuple(q.requires_grad_() for q in qs)
    )


# -- what it must not depend on --------------------------------------------------------------------


@pytest.mark.parametrize(("similarity", "negatives"), MODES)
def test_views_clusters_and_samples_have_no_order(
    similarity: Similarity, negatives: Negatives
) -> None:
    qs = soft(6, 3, 5)

    def losses(qs: list[Tensor], pairs: list[tuple[int, int]]) -> Tensor:
        return cluster_contrast(qs, pairs, similarity=similarity, negatives=negatives)

    there, back = losses(qs, [(0, 1), (1, 0)])
    torch.testing.assert_close(there, torch.cat([back[3:], back[:3]]))
    clusters, samples = torch.tensor([2, 0, 1]), torch.tensor([4, 2, 0, 1, 5, 3])
    renamed = losses([q[samples][:, clusters] for q in qs], [(0, 1)])[0]
    torch.testing.assert_close(renamed, there[torch.cat([clusters, clusters + 3])])
    one_view = [qs[0][samples], qs[1]]
    assert (losses(one_view, [(0, 1)])[0] - there).abs().max() > 1e-3
    torch.testing.assert_close(negative_entropy(one_view), negative_entropy(qs[:2]))


# -- gradients and edges ---------------------------------------------------------------------------


@pytest.mark.parametrize(("similarity", "negatives"), MODES)
def test_gradients_are_those_of_finite_differences(
    similarity: Similarity, negatives: Negatives
) -> None:
    qs = tuple(q.requires_grad_() for q in soft(3, 3, 1))
    assert torch.autograd.gradcheck(
        lambda *q: cluster_contrast(q, PAIRS, 0.7, similarity=similarity, negatives=negatives), qs
    )
    assert torch.autograd.gradcheck(lambda *q: negative_entropy(q), qs)


def test_own_negatives_and_the_entropy_can_be_differentiated_twice() -> None:
    qs = tuple(q.requires_grad_() for q in soft(3, 2, 1))
    assert torch.autograd.gradgradcheck(
        lambda *q: cluster_contrast(q, PAIRS, negatives="own").sum() + negative_entropy(q).sum(),
        qs,
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("similarity", "negatives"), MODES)
def test_an_empty_cluster_stays_finite(
    dtype: torch.dtype, similarity: Similarity, negatives: Negatives
) -> None:
    dead = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], dtype=dtype).requires_grad_()
    alive = soft(2, 3, 0, dtype)[0]
    losses = cluster_contrast([dead, alive], [(0, 1)], similarity=similarity, negatives=negatives)
    entropy = negative_entropy([dead, alive])
    (losses.mean() + entropy.sum()).backward()
    assert losses.isfinite().all()
    assert entropy[0].item() == pytest.approx(-math.log(2))
    assert dead.grad is not None
    assert dead.grad.isfinite().all()


def test_a_single_cluster_has_nothing_to_contrast() -> None:
    q = torch.ones(5, 1)
    for similarity, negatives in MODES:
        found = cluster_contrast([q, q], [(0, 1)], similarity=similarity, negatives=negatives)
        assert found.abs().max() < 1e-6
    assert negative_entropy([q]).tolist() == [0.0]


def test_great_products_stay_finite() -> None:
    q = one_hot(2, 3000).float().requires_grad_()
    found = cluster_contrast([q, q], [(0, 1)], 0.01, similarity="dot")
    found.mean().backward()
    assert found.tolist() == [[0.0] * 4]
    assert q.grad is not None
    assert q.grad.isfinite().all()
