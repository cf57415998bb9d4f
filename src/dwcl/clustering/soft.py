"""Soft assignments: rows of probabilities, one for each cluster."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

LEAST_MASS = 1e-12
"""A cluster with less than this in a whole batch counts as one with this much."""


def sharpened(q: Tensor) -> Tensor:
    r"""Bring soft assignments nearer to the corners, clusters of little mass more than others.

    .. math::

        T_{ik} = \frac{Q_{ik}^2 / f_k}{\sum_l Q_{il}^2 / f_l}, \qquad f_k = \sum_i Q_{ik}

    Gradients flow through all of it, f included; a method that takes T for a fixed target cuts it
    off itself. T depends on which samples are in the batch.

    Parameters
    ----------
    q : Tensor, … × n × k
        Soft assignments, rows that sum to 1; for several views at once, along leading places.
    """
    mass = q.sum(dim=-2, keepdim=True).clamp(min=LEAST_MASS)
    weighed = q * (q / mass)  # in this order no square leaves the range of numbers
    return weighed / weighed.sum(dim=-1, keepdim=True)


def mean_assignment(qs: Sequence[Tensor], observed: Tensor | None = None) -> Tensor:
    r"""Average the views' soft assignments, each sample over the views that it has.

    .. math::

        \bar Q_i = \frac{\sum_v m_{iv} \, Q^v_i}{\sum_v m_{iv}}

    Parameters
    ----------
    qs : sequence of V Tensor, n × k
        Soft assignments of each view. Where a view is missing they may be anything, even NaN.
    observed : Tensor of bool, n × V, optional
        m: which samples have which views, at least one each; all, if it is not given.

    Returns
    -------
    Tensor, n × k
    """
    stacked = torch.stack(list(qs), dim=1)  # n × V × k
    if observed is None:
        return stacked.mean(dim=1)
    present = stacked.masked_fill(~observed[:, :, None], 0)
    return present.sum(dim=1) / observed.sum(dim=1, keepdim=True)
