"""Contrast of views with a code that is common to all of them, given clusters of the samples."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

ABSENT = -10.0
"""Logit of a cluster of which a batch has no sample."""
SHORTEST = 1e-8
"""Codes that are shorter have a cosine as if they were of this length."""


def centre_contrast(
    common: Tensor, views: Tensor, labels: Tensor, n_clusters: int, temperature: float
) -> tuple[Tensor, Tensor]:
    r"""Contrast the centres of the clusters of a batch: common ones with each view's.

    With the unit vectors :math:`q_c` and :math:`u^v_c` along the means of a cluster's common codes
    and of its codes in view v,

    .. math::

        \ell^v_c = -\frac{q_c \cdot u^v_c}{\tau} + \log \Big( e^{q_c \cdot u^v_c / \tau}
            + \sum_{e \ne c} e^{s_{ce}} \Big), \qquad
        s_{ce} = \begin{cases} q_c \cdot q_e / \tau & \text{e has samples} \\
            -10 & \text{otherwise.} \end{cases}

    Parameters
    ----------
    common, views : Tensor, b × d and V × b × d
        Codes of any length.
    labels : Tensor of b
        Clusters of the samples (int64, 0 to k − 1).
    n_clusters, temperature : int, float
        k and τ > 0.

    Returns
    -------
    losses : Tensor, V × k
        Losses of the clusters in each view, 0 for those without samples.
    present : Tensor of bool, k
        Which clusters have samples.
    """
    clusters = torch.arange(n_clusters, device=labels.device)
    belongs = labels == clusters[:, None]  # k × b
    counts = belongs.sum(1)
    present = counts > 0
    share = belongs.to(common.dtype) / counts.clamp(min=1)[:, None]
    q = functional.normalize(share @ common, dim=1)  # k × d
    u = functional.normalize(share @ views, dim=2)  # V × k × d
    positive = (q * u).sum(2) / temperature  # V × k
    others = (q @ q.T / temperature).masked_fill(~present, ABSENT)
    # A cluster that is alone has no sum: a number that is next to none keeps gradients finite.
    own = clusters == clusters[:, None]
    rest = others.masked_fill(own, torch.finfo(q.dtype).min).logsumexp(dim=1)
    losses = torch.logaddexp(positive, rest) - positive
    return losses.masked_fill(~present, 0), present


def neighbour_contrast(
    common: Tensor,
    views: Tensor,
    near: Tensor,
    labels: Tensor,
    temperature: float,
    negative_temperature: float,
) -> Tensor:
    r"""Contrast samples of each view (rows) with samples of the common code and of the same view.

    Samples that are neighbours in a view and of the same cluster are positives (:math:`P_i`, the
    sample itself included), those that are neither are negatives (:math:`M_i`). With cosines
    :math:`c_{ij}` of the codes of i in the view and of j in common, and :math:`w_{ij}` of both in
    the view,

    .. math::

        \ell_i = -\sum_{j \in P_i} \frac{c_{ij}}{\tau}
            + \log \sum_{j \in M_i} \Big( e^{w_{ij} / \tau'} + e^{c_{ij} / \tau'} \Big).

    Positives are added up, not averaged, and are not in the sum of the negatives: a loss may be
    below 0.

    Parameters
    ----------
    common, views : Tensor, b × d and V × b × d
        Codes of any length.
    near : Tensor of bool, V × b × b
        Who are neighbours in each view.
    labels : Tensor of b
        Clusters of the samples.
    temperature, negative_temperature : float
        Of the positives and of the negatives.

    Returns
    -------
    Tensor, V × b
        Losses of the samples in each view; without negatives, of the positives alone.
    """
    b = len(common)
    own = functional.normalize(views, dim=2, eps=SHORTEST)
    fused = functional.normalize(common, dim=1, eps=SHORTEST)
    cosines = own @ torch.cat([fused.expand_as(own), own], dim=1).mT  # V × b × 2b
    itself = torch.eye(b, dtype=torch.bool, device=labels.device)
    same = labels[:, None] == labels
    related = near | itself
    positive = (cosines[:, :, :b] * (related & same)).sum(2) / temperature  # V × b
    apart = ~(related | same)
    excluded = ~apart.repeat(1, 1, 2)
    # A row without negatives is taken out below; until then it must have finite gradients.
    logits = (cosines / negative_temperature).masked_fill(excluded, torch.finfo(own.dtype).min)
    negative = torch.where(apart.any(2), logits.logsumexp(dim=2), 0)
    return negative - positive
