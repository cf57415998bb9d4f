r"""Divergence-based clustering: clusters that are compact, apart, equally large, and at corners.

All of it is computed within a batch: from features H (b × d), whose geometry a Gaussian kernel
:math:`\kappa` describes, and soft assignments Q (b × k, rows that sum to 1).
"""

from __future__ import annotations

import torch
from torch import Tensor

from dwcl.clustering.distances import squared_distances

KERNEL_WIDTH = 0.15
"""Width of the kernel (2σ² is twice as much), in medians of the squared distances."""
LEAST = 1e-9
"""Kernels are at least so wide, and shares of kernels in two clusters at least so large."""


def deep_divergence(h: Tensor, q: Tensor, *, width: float = KERNEL_WIDTH) -> Tensor:
    r"""Three terms of deep divergence-based clustering, each a number.

    .. math::

        D(Q), \qquad
        \frac{2}{b (b - 1)} \sum_{i < j} Q_i^\top Q_j, \qquad
        D(M) \text{ with } M_{ik} = e^{-\lVert Q_i - e_k \rVert^2},

    where D is the Cauchy–Schwarz divergence of clusters (:func:`cauchy_schwarz`) under the kernel
    of the features (:func:`gaussian_kernel`). The first term parts the clusters in the space of
    the features, the second is least when they are crisp and equally large, the third draws the
    assignments to the corners :math:`e_k` of the simplex.

    Parameters
    ----------
    h : Tensor, b × d
        Features.
    q : Tensor, b × k
        Soft assignments, rows that sum to 1.
    width : float
        Of the kernel, in medians of the squared distances.

    Returns
    -------
    Tensor of 3
        The terms in their order. Terms over no pairs of clusters (k = 1) or of samples (b = 1)
        are 0.
    """
    b = len(q)
    to_corners = q.square().sum(1, keepdim=True) - 2 * q + 1  # squared distances, b × k
    apart, at_corners = cauchy_schwarz(
        torch.stack([q, (-to_corners).exp()]), gaussian_kernel(h, width)
    )
    # Σ over i < j of the products of rows: all of them without those of a row with itself
    products = (q.sum(0).square().sum() - q.square().sum()) / 2
    alike = 2 * products / max(b * (b - 1), 1)
    return torch.stack([apart, alike, at_corners])


def gaussian_kernel(h: Tensor, width: float = KERNEL_WIDTH) -> Tensor:
    r"""Kernel of the features of a batch (b × b), as wide as their distances have it.

    .. math::

        \kappa_{ij} = e^{-D_{ij} / 2s}, \qquad D_{ij} = \lVert h_i - h_j \rVert^2, \qquad
        s = \max(w \cdot \mathrm{median}(D), 10^{-9})

    The median is that of all b² entries, the lower one where two are in the middle. Gradients reach
    D, but not s.

    Parameters
    ----------
    h : Tensor, b × d
        Features.
    width : float
        w > 0.
    """
    distances = squared_distances(h)
    scale = (width * distances.detach().median()).clamp(min=LEAST)
    return (-distances / (2 * scale)).exp()


def cauchy_schwarz(weights: Tensor, kernel: Tensor) -> Tensor:
    r"""Cauchy–Schwarz divergence of the clusters: 0 where they share nothing, 1 where all are one.

    .. math::

        \frac{2}{k (k - 1)} \sum_{a < c} \frac{N_{ac}}{\sqrt{N_{aa} N_{cc}}},
        \qquad N = W^\top \kappa W

    N and the products under the root have a floor, :math:`10^{-9}` and its square; what lies below
    it carries no gradient.

    Parameters
    ----------
    weights : Tensor, … × b × k
        W: how much each sample belongs to each cluster; several of them along leading places.
    kernel : Tensor, b × b
        κ.

    Returns
    -------
    Tensor, …
    """
    shared = weights.mT @ kernel @ weights  # … × k × k
    own = shared.diagonal(dim1=-2, dim2=-1)
    lengths = (own[..., :, None] * own[..., None, :]).clamp(min=LEAST**2).sqrt()
    k = weights.shape[-1]
    pairs = (shared.clamp(min=LEAST) / lengths).triu(1).sum((-2, -1))
    return 2 * pairs / max(k * (k - 1), 1)
