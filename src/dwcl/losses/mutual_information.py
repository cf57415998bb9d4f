r"""Mutual information of what two views say of the same samples, by latent categories."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from dwcl.losses._pairs import stacked

LEAST_SHARE = torch.finfo(torch.float64).eps
"""A pair of categories with less than this of a batch counts as one with this much."""


def mutual_information_loss(
    zs: Sequence[Tensor], pairs: Sequence[tuple[int, int]], entropy_weight: float
) -> Tensor:
    r"""Loss of every pair of views: low where they name categories alike, and all categories.

    A row of a view is the distribution of a sample over d latent categories, the same for all
    views. A batch gives an estimate of their joint distribution in the views A and C, of which
    both orders count alike:

    .. math::

        P = \frac{A^\top C + C^\top A}{2 b}, \qquad r_i = \sum_j P_{ij}, \qquad
        I_\alpha(A, C) = -\sum_{ij} P_{ij} (\log P_{ij} - \alpha \log r_i - \alpha \log r_j)

    That is the negative mutual information, −MI, less α − 1 times the entropies of both margins,
    which keep the categories from falling together. There are no negatives.

    Parameters
    ----------
    zs : sequence of Tensor, b × d
        The views of a batch: rows that are not negative and sum to 1.
    pairs : sequence of (int, int)
        Which views are compared.
    entropy_weight : float
        α ≥ 0.

    Returns
    -------
    Tensor of P
        From −(2α − 1) log d (samples of all categories alike, and the views agree) to 0 (all in
        one category), for α ≥ 1.
    """
    z, (left, right, *_) = stacked(zs, pairs)  # U × b × d
    joint = z[left].mT @ z[right]  # P × d × d
    joint = (joint + joint.mT) / 2
    joint = joint / joint.sum(dim=(1, 2), keepdim=True)
    margin = joint.sum(dim=2).clamp(min=LEAST_SHARE)  # P × d; of rows and of columns the same
    # A share below the least is replaced by it, so that it carries no gradient.
    joint = joint.clamp(min=LEAST_SHARE)
    of_margins = (joint.sum(dim=2) * margin.log()).sum(dim=1)
    return 2 * entropy_weight * of_margins - (joint * joint.log()).sum(dim=(1, 2))
