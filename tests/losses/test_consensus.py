"""Contrast of views with a common code: values by hand, plain loops, gradients, edges."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from dwcl.losses import centre_contrast, neighbour_contrast


def tensor(*rows: list[float]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def drawn(seed: int, n_views: int = 3, b: int = 9, k: int = 3) -> tuple[Tensor, ...]:
    """A common code, codes of views, symmetric graphs without loops, and labels."""
    rng = torch.Generator().manual_seed(seed)
    common = torch.randn(b, 4, generator=rng, dtype=torch.float64)
    views = torch.randn(n_views, b, 4, generator=rng, dtype=torch.float64)
    near = torch.rand(n_views, b, b, generator=rng) < 0.2
    near = (near | near.mT) & ~torch.eye(b, dtype=torch.bool)
    return common, views, near, torch.randint(k, (b,), generator=rng)


def cosine(one: Tensor, other: Tensor) -> float:
    return float(one @ other / (one.norm() * other.norm()))


# -- centres ---------------------------------------------------------------------------------------


def slow_centres(common: Tensor, views: Tensor, labels: Tensor, k: int, t: float) -> list[Tensor]:
    members = [[i for i in range(len(labels)) if labels[i] == c] for c in range(k)]
    losses = []
    for view in views:
        row = []
        for c in range(k):
            if not members[c]:
                row.append(0.0)
                continue
            q = common[members[c]].mean(0)
            positive = cosine(q, view[members[c]].mean(0)) / t
            total = math.exp(positive)
            for other in range(k):
                if other != c and members[other]:
                    total += math.exp(cosine(q, common[members[other]].mean(0)) / t)
                elif other != c:
                    total += math.exp(-10)
            row.append(math.log(total) - positive)
        losses.append(row)
    return losses


def test_centres_by_hand() -> None:
    common = tensor([1, 0], [0, 1])
    views = tensor([1, 0], [0.6, 0.8])[None]
    losses, present = centre_contrast(common, views, torch.tensor([0, 1]), 2, 0.5)
    assert losses[0].tolist() == pytest.approx([0.126928, 0.183901], abs=1e-6)
    assert float(losses.sum() / present.sum()) == pytest.approx(0.155414, abs=1e-6)
    losses, present = centre_contrast(common, views, torch.tensor([0, 1]), 3, 0.5)
    assert losses[0].tolist() == pytest.approx([0.126933, 0.183908, 0], abs=1e-6)
    assert present.tolist() == [True, True, False]
    assert float(losses.sum() / present.sum()) == pytest.approx(0.155421, abs=1e-6)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize(("n_views", "k"), [(1, 3), (2, 2), (3, 5), (4, 9)])
def test_centres_against_plain_loops(seed: int, n_views: int, k: int) -> None:
    common, views, _, labels = drawn(seed, n_views, k=k)
    losses, present = centre_contrast(common, views, labels, k, 0.7)
    expected = slow_centres(common, views, labels, k, 0.7)
    torch.testing.assert_close(losses, torch.tensor(expected, dtype=torch.float64))
    assert present.tolist() == [bool((labels == c).any()) for c in range(k)]


@pytest.mark.parametrize("k", [1, 3, 6])
def test_gradients_of_centres(k: int) -> None:
    common, views, _, labels = drawn(0, 2, b=5, k=min(k, 3))

    def value(common: Tensor, views: Tensor) -> Tensor:
        return centre_contrast(common, views, labels, k, 0.5)[0]

    assert torch.autograd.gradcheck(value, (common.requires_grad_(), views.requires_grad_()))


def test_a_cluster_alone_has_nothing_to_be_pushed_from() -> None:
    common, views, _, _ = drawn(0)
    views.requires_grad_()
    losses, _ = centre_contrast(common, views, torch.zeros(9, dtype=torch.int64), 1, 0.5)
    assert losses.tolist() == [[0.0]] * 3
    losses.sum().backward()
    assert views.grad is not None
    assert not views.grad.any()


def test_codes_of_zeros_have_finite_gradients() -> None:
    common, views = torch.zeros(4, 3, requires_grad=True), torch.zeros(2, 4, 3, requires_grad=True)
    labels, near = torch.tensor([0, 0, 1, 1]), torch.zeros(2, 4, 4, dtype=torch.bool)
    total = centre_contrast(common, views, labels, 3, 0.5)[0].sum()
    (total + neighbour_contrast(common, views, near, labels, 0.5, 0.25).sum()).backward()
    for leaf in (common, views):
        assert leaf.grad is not None
        assert leaf.grad.isfinite().all()


# -- neighbours ------------------------------------------------------------------------------------


def slow_neighbours(
    common: Tensor, views: Tensor, near: Tensor, labels: Tensor, t: float, negative: float
) -> list[list[float]]:
    b = len(common)
    losses = []
    for v, view in enumerate(views):
        row = []
        for i in range(b):
            loss, pushed = 0.0, 0.0
            for j in range(b):
                related, same = i == j or bool(near[v, i, j]), bool(labels[i] == labels[j])
                if related and same:
                    loss -= cosine(view[i], common[j]) / t
                elif not related and not same:
                    pushed += math.exp(cosine(view[i], common[j]) / negative)
                    pushed += math.exp(cosine(view[i], view[j]) / negative)
            row.append(loss + (math.log(pushed) if pushed else 0.0))
        losses.append(row)
    return losses


VIEW = tensor([1, 0], [0.8, 0.6], [0.6, 0.8])[None]
COMMON = tensor([2, 0], [1.2, 1.6], [0.28, 0.96])
EDGE = torch.tensor([[[0, 1, 0], [1, 0, 0], [0, 0, 0]]], dtype=torch.bool)


def by_hand(labels: list[int], near: Tensor = EDGE, common: Tensor = COMMON) -> Tensor:
    return neighbour_contrast(common, VIEW, near, torch.tensor(labels), 0.5, 0.25)[0]


def test_neighbours_by_hand() -> None:
    found = by_hand([0, 0, 1])
    positives = torch.tensor([2 + 1.2, 1.6 + 1.92, 1.872])
    negatives = torch.tensor([2.645326, 4.263497, 4.813565])
    assert found.tolist() == pytest.approx((negatives - positives).tolist(), abs=1e-6)
    assert float(found.mean()) == pytest.approx(1.043462, abs=1e-6)
    longer = COMMON * tensor([3.0], [0.1], [7.0])
    torch.testing.assert_close(by_hand([0, 0, 1], common=longer), found)


def test_rows_without_negatives_have_their_positives_alone() -> None:
    assert by_hand([0, 0, 0]).tolist() == pytest.approx([-3.2, -3.52, -1.872])
    # Of the same label, but no neighbours: in neither sum.
    assert by_hand([0, 0, 0], EDGE & False).tolist() == pytest.approx([-2, -1.92, -1.872])


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("n_views", [1, 2, 4])
def test_neighbours_against_plain_loops(seed: int, n_views: int) -> None:
    given = drawn(seed, n_views)
    found = neighbour_contrast(*given, 0.5, 0.3)
    expected = slow_neighbours(*given, 0.5, 0.3)
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64))


def masked_as_published(
    common: Tensor, view: Tensor, near: Tensor, labels: Tensor, t: float
) -> Tensor:
    """The form with entries of exactly 0 for what is no negative, one view."""
    b = len(common)
    whole = functional.cosine_similarity(view[:, None], common[None], dim=2) / t
    inside = functional.cosine_similarity(view[:, None], view[None], dim=2) / t
    related = near | torch.eye(b, dtype=torch.bool)
    same = labels[:, None] == labels
    negative = (~related & ~same).double()
    logits = torch.cat([inside * negative, whole * negative], dim=1)
    logits = torch.where(logits == 0, math.log(1.4e-45), logits)
    return (logits / t).logsumexp(1) - (whole * (related & same)).sum(1)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_gradients_are_those_of_the_published_form(seed: int) -> None:
    common, views, near, labels = drawn(seed, 1, b=7)
    labels[:] = torch.tensor([0, 0, 0, 0, 1, 1, 0])
    near[0, 0] = near[0, :, 0] = True  # so the first row is without negatives
    near[0, 0, 0] = False
    slopes = []
    for form in ("here", "published"):
        leaves = [common.clone().requires_grad_(), views.clone().requires_grad_()]
        if form == "here":
            rows = neighbour_contrast(*leaves, near, labels, 0.5, 0.25)[0]
        else:
            rows = masked_as_published(leaves[0], leaves[1][0], near[0], labels, 0.5)
        slopes.append(torch.autograd.grad(rows.sum(), leaves))
        if form == "published":
            here = torch.tensor(slow_neighbours(common, views, near, labels, 0.5, 0.25)[0])
            negatives = (labels[:, None] != labels) & ~near[0]
            constant = math.log(2 * 7) + math.log(1.4e-45) / 0.5
            expected = [0.0 if row.any() else constant for row in negatives]
            assert (rows - here).tolist() == pytest.approx(expected, abs=1e-4)
            assert expected[0] == constant
    for one, other in zip(*slopes, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("labels", [[0, 1, 2, 0, 1], [0, 0, 0, 0, 0]])
def test_gradients_of_neighbours(labels: list[int]) -> None:
    common, views, near, _ = drawn(1, 2, b=5)

    def value(common: Tensor, views: Tensor) -> Tensor:
        return neighbour_contrast(common, views, near, torch.tensor(labels), 0.5, 0.25)

    assert torch.autograd.gradcheck(value, (common.requires_grad_(), views.requires_grad_()))


def test_a_sample_alone() -> None:
    common, views, near, labels = drawn(0, 2, b=1)
    found = neighbour_contrast(common, views, near, labels, 0.5, 0.25)
    expected = [[-cosine(view[0], common[0]) / 0.5] for view in views]
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64))


def test_the_order_of_the_samples_has_no_influence() -> None:
    common, views, near, labels = drawn(3)
    order = torch.randperm(9, generator=torch.Generator().manual_seed(0))
    turned = (common[order], views[:, order], near[:, order][:, :, order], labels[order])
    rows = neighbour_contrast(common, views, near, labels, 0.5, 0.25)
    torch.testing.assert_close(neighbour_contrast(*turned, 0.5, 0.25), rows[:, order])
    centres = centre_contrast(common, views, labels, 4, 0.5)[0]
    torch.testing.assert_close(centre_contrast(turned[0], turned[1], turned[3], 4, 0.5)[0], centres)
