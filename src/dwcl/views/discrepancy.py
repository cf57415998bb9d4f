"""How far two views agree or differ, by their clusters or by their features."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

import torch
from torch import Tensor

from dwcl.clustering.tables import Table
from dwcl.errors import DataError

T = TypeVar("T")

BLOCK_ROWS = 512
"""Samples that are compared at once."""
MMD_ROWS = 2000
"""The first so many samples stand for all where every two of them are compared."""
WIDTHS = 4
"""Number of kernels, each four times as wide as the one before."""


def cmi(labels_a: Tensor, labels_b: Tensor) -> float:
    """Mutual information of two clusterings, normalised: 2·I(a; b) / (H(a) + H(b)).

    0 when neither tells anything of the other, 1 when they are the same up to names. Two
    clusterings of a single cluster each are the same, so 1.

    Parameters
    ----------
    labels_a, labels_b : Tensor of n
        Clusters by whole numbers from 0.
    """
    table = torch.zeros(int(labels_a.max()) + 1, int(labels_b.max()) + 1, dtype=torch.float64)
    index = (labels_a.cpu(), labels_b.cpu())
    table.index_put_(index, torch.ones((), dtype=torch.float64), accumulate=True)
    n = len(labels_a)
    entropy_a, entropy_b = _entropy(table.sum(dim=1) / n), _entropy(table.sum(dim=0) / n)
    if entropy_a + entropy_b == 0:
        return 1.0
    information = entropy_a + entropy_b - _entropy(table / n)
    # Rounding may lead a hair's breadth out of the range that the definition guarantees.
    return min(1.0, max(0.0, 2 * information / (entropy_a + entropy_b)))


def jsd(a: Table, b: Table) -> float:
    r"""Jensen–Shannon divergence of two views' features, the mean over the samples.

    .. math::

        \frac1n \sum_i \tfrac12 \big( \mathrm{KL}(p_i \Vert m_i)
            + \mathrm{KL}(q_i \Vert m_i) \big), \qquad m_i = \tfrac12 (p_i + q_i),

    where p_i and q_i are the softmax over the features of sample i in either view. It goes from 0
    to log 2. Feature by feature, so for views of the same width alone.

    Parameters
    ----------
    a, b : Tensor or Table, n × d
        Features of the same samples in two views.
    """
    _check_like_shape(a, b)
    total = 0.0
    for start in range(0, len(a), BLOCK_ROWS):
        block = slice(start, start + BLOCK_ROWS)
        # By logarithms, where probabilities too small for a number leave no 0 · ∞.
        log_p, log_q = (x[block].detach().double().log_softmax(1) for x in (a, b))
        log_m = torch.logaddexp(log_p, log_q) - math.log(2)
        parts = log_p.exp() * (log_p - log_m) + log_q.exp() * (log_q - log_m)
        total += float(parts.sum()) / 2
    return min(math.log(2), max(0.0, total / len(a)))


def mmd(a: Table, b: Table, *, max_rows: int = MMD_ROWS) -> float:
    r"""Maximum mean discrepancy of two views' features, squared (the biased estimate).

    .. math::

        \overline{k(P, P)} + \overline{k(Q, Q)} - 2 \, \overline{k(P, Q)},
        \qquad k(x, y) = \sum_{i=0}^{3} e^{-\lVert x - y \rVert^2 / (4^i \sigma)},

    with means over all pairs of samples, pairs of a sample with itself included, and with σ a
    sixteenth of the mean squared distance of two different ones of the 2n rows. It compares where
    the samples lie, not which lies where; still the views must have the same width.

    Parameters
    ----------
    a, b : Tensor or Table, n × d
        Features in two views.
    max_rows : int
        The first so many samples stand for all.
    """
    _check_like_shape(a, b)
    x = torch.cat([a[:max_rows], b[:max_rows]]).detach().double()  # 2n × d
    n = len(x) // 2
    x = x - x.mean(0)
    squares = x.square().sum(1)
    # With the mean at the origin, Σ‖x − y‖² over all ordered pairs is 2 · 2n · Σ‖x‖².
    mean = 4 * n * float(squares.sum()) / (2 * n * (2 * n - 1))
    if mean == 0:
        return 0.0  # all rows are the same
    widest = mean / 16 * 4 ** (WIDTHS - 1)
    sign = torch.cat([x.new_ones(n), -x.new_ones(n)])
    total = 0.0
    for start in range(0, 2 * n, BLOCK_ROWS):
        block = slice(start, start + BLOCK_ROWS)
        distances = torch.addmm(squares, x[block], x.T, alpha=-2)
        distances.add_(squares[block, None]).clamp_(min=0)
        kernel = distances.div_(-widest).exp_()
        kernels = kernel.clone()
        for _ in range(WIDTHS - 1):
            kernels += kernel.square_().square_()  # a quarter of the width: the fourth power
        total += float(sign[block] @ kernels @ sign)
    return max(0.0, total / n**2)


def between_views(
    views: Sequence[T], measure: Callable[[T, T], float], own: float
) -> tuple[tuple[float, ...], ...]:
    """Measure all pairs of views (V × V), each unordered pair once; `own` is on the diagonal."""
    table = [[own] * len(views) for _ in views]
    for v, one in enumerate(views):
        for w, other in enumerate(views[:v]):
            table[v][w] = table[w][v] = measure(one, other)
    return tuple(map(tuple, table))


def _check_like_shape(a: Table, b: Table) -> None:
    if tuple(a.shape) != tuple(b.shape):
        raise DataError(
            f"The features of the two views have shapes {tuple(a.shape)} and {tuple(b.shape)}; "
            "as many features of the same samples are expected in both."
        )


def _entropy(probabilities: Tensor) -> float:
    # Rounded once, so that neither the order of the views nor names of clusters change a bit.
    return -math.fsum(torch.special.xlogy(probabilities, probabilities).flatten().tolist())
