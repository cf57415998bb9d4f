r"""Calibrated contrast: similarities of samples follow a graph that soft assignments make.

The usual contrast has one positive for each sample, itself in the other view. Here the samples
that are confidently assigned to its cluster are positives as well, each by the weight of its edge.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from dwcl.losses._pairs import stacked

GUARD = 1e-7
"""Added to a probability before its logarithm is taken."""


def label_graphs(
    qs: Sequence[Tensor], pairs: Sequence[tuple[int, int]], threshold: float
) -> Tensor:
    r"""Connect the samples of a batch that soft assignments put together.

    .. math::

        W_{ij} = \frac{G_{ij}}{\sum_l G_{il}}, \qquad
            G_{ij} = \langle q_i, q'_j \rangle \, [\langle q_i, q'_j \rangle \ge \theta]
            \text{ for } i \ne j, \quad G_{ii} = 1

    Gradients reach the assignments through the products that stay, not through the diagonal.

    Parameters
    ----------
    qs : sequence of Tensor, b × k
        Soft assignments of the views of a batch.
    pairs : sequence of (int, int)
        Whose samples are connected: rows are of the first view, columns of the second.
    threshold : float
        θ ≤ 1, so that no row is empty.

    Returns
    -------
    Tensor, P × b × b
        W of each pair; it is not symmetric.
    """
    q, (left, right, *_) = stacked(qs, pairs)
    own = torch.eye(q.shape[1], dtype=torch.bool, device=q.device)
    graphs = (q[left] @ q[right].mT).masked_fill(own, 1.0)
    graphs = graphs.masked_fill(graphs < threshold, 0.0)
    return graphs / graphs.sum(dim=2, keepdim=True)


def calibration(zs: Sequence[Tensor], pairs: Sequence[tuple[int, int]], graphs: Tensor) -> Tensor:
    r"""Cross-entropy of the similarities of samples with their graphs.

    .. math::

        \ell_i = -\sum_j W_{ij} \log (P_{ij} + 10^{-7}), \qquad
            P_{ij} = \frac{e^{\langle z_i, z'_j \rangle}}{\sum_l e^{\langle z_i, z'_l \rangle}}

    With the identity for a graph it is a contrast of one direction at temperature 1.

    Parameters
    ----------
    zs : sequence of Tensor, b × d
        Features of the views of a batch, of any length.
    pairs : sequence of (int, int)
        Which views are compared, rows of the first with rows of the second.
    graphs : Tensor, P × b × b
        W, rows that sum to 1.

    Returns
    -------
    Tensor, P × b
        Losses of the samples of each pair's first view.
    """
    z, (left, right, *_) = stacked(zs, pairs)
    shares = (z[left] @ z[right].mT).softmax(dim=2)
    return -(graphs * (shares + GUARD).log()).sum(dim=2)


def survivors(graphs: Tensor) -> Tensor:
    """Share of the other samples that are connected, in each of P graphs (P × b × b)."""
    b = graphs.shape[1]
    others = (graphs.detach() > 0).sum(dim=(1, 2)) - b
    return others / max(1, b * (b - 1))
