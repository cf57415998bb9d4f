r"""Contrast of clusters: the columns of two views' soft assignments are what is compared.

Column k of a view's soft assignments Q (b × k, rows that sum to 1) describes cluster k by the
samples of the batch. The same cluster in the other view is its positive, other clusters are its
negatives. Alone this has a trivial optimum, a single cluster for everything; what keeps the
clusters equally large is :func:`negative_entropy`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, TypeAlias

import torch
from torch import Tensor
from torch.nn import functional

from dwcl.losses._pairs import stacked
from dwcl.losses.infonce import infonce

Similarity: TypeAlias = Literal["cosine", "dot"]
Negatives: TypeAlias = Literal["both", "own"]

SHORTEST = 1e-8
"""Columns that are shorter have a cosine as if they were of this length."""
LEAST_MASS = 1e-12
"""Shares of the mass below this have the logarithm of it: none is infinite."""


def cluster_contrast(
    qs: Sequence[Tensor],
    pairs: Sequence[tuple[int, int]],
    temperature: float = 1.0,
    *,
    similarity: Similarity = "cosine",
    negatives: Negatives = "both",
) -> Tensor:
    r"""Loss of every cluster of every pair.

    .. math::

        \ell_a = -\frac{s_{a,p(a)}}{\tau} + \log \Big( e^{s_{a,p(a)}/\tau}
            + \sum_{c \in N(a)} e^{s_{a,c}/\tau} \Big)

    Parameters
    ----------
    qs : sequence of Tensor, b × k
        Soft assignments of the views of a batch.
    pairs : sequence of (int, int)
        Which views are compared.
    temperature : float
        τ > 0.
    similarity : {"cosine", "dot"}
        s of two columns: their cosine, or their plain product, which grows with the batch.
    negatives : {"both", "own"}
        N(a): the other clusters in both views (2k − 2 of them), or in the own one alone (k − 1).

    Returns
    -------
    Tensor, P × 2k
        Losses of the clusters: the first k are of the pair's first view, the others of its second.
    """
    columns = [q.T for q in qs]
    if similarity == "cosine":
        columns = [functional.normalize(c, dim=1, eps=SHORTEST) for c in columns]
    if negatives == "both":
        return infonce(columns, pairs, temperature)
    return _against_own(columns, pairs, temperature)


def negative_entropy(qs: Sequence[Tensor]) -> Tensor:
    r"""Negative entropy of the sizes of the clusters in a batch, one value per view (V).

    .. math::

        \sum_k \pi_k \log \pi_k, \qquad \pi_k = \frac{\sum_i Q_{ik}}{\sum_{i,l} Q_{il}}

    It lies between −log k, where all clusters are equally large, and 0, where all samples are in
    one. Some methods add log k; gradients are the same.

    Parameters
    ----------
    qs : sequence of Tensor, b × k
        Soft assignments of the views of a batch.
    """
    mass = torch.stack([q.sum(0) for q in qs])  # V × k
    share = mass / mass.sum(1, keepdim=True)
    return (share * share.clamp(min=LEAST_MASS).log()).sum(1)


def balanced_contrast(qs: Sequence[Tensor], pairs: Sequence[tuple[int, int]]) -> Tensor:
    r"""Contrast of clusters with negatives of their own view, and what is uneven in both views.

    .. math::

        \overline{\ell} + \sum_{u \in \{v, w\}} \Big( \log k + \sum_c \pi^u_c \log \pi^u_c \Big)

    with the mean over the losses of the 2k clusters of :func:`cluster_contrast` (cosines, τ = 1)
    and the sizes π of :func:`negative_entropy`.

    Parameters
    ----------
    qs : sequence of Tensor, b × k
        Soft assignments of the views of a batch.
    pairs : sequence of (int, int)
        Which views are compared.

    Returns
    -------
    Tensor of P
    """
    contrast = cluster_contrast(qs, pairs, negatives="own").mean(1)
    uneven = math.log(qs[0].shape[1]) + negative_entropy(qs)
    return contrast + torch.stack([uneven[v] + uneven[w] for v, w in pairs])


def _against_own(
    columns: Sequence[Tensor], pairs: Sequence[tuple[int, int]], temperature: float
) -> Tensor:
    """Losses (P × 2k) of columns (k × b per view) whose negatives are in their own view."""
    c, (left, right, *_) = stacked(columns, pairs)
    c = c / math.sqrt(temperature)  # U × k × b
    within = c @ c.mT  # U × k × k
    positive = (c[left] * c[right]).sum(2)  # P × k
    # In the sum a cluster's positive stands where its similarity to itself would.
    own = torch.eye(c.shape[1], dtype=torch.bool, device=c.device)
    losses = [
        torch.where(own, positive[:, :, None], within[side]).logsumexp(dim=2) - positive
        for side in (left, right)
    ]
    return torch.cat(losses, dim=1)
