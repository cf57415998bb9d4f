r"""Spectral contrast between two views of a batch, for many pairs of views at once."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from dwcl.losses._pairs import stacked


def spectral(
    zs: Sequence[Tensor], pairs: Sequence[tuple[int, int]], *, radius: float = 3.0
) -> Tensor:
    r"""Loss of every sample of every pair.

    .. math::

        \ell_i = -2 \langle z^v_i, z^w_i \rangle
            + \frac{1}{b - 1} \sum_{j \ne i} \langle z^v_i, z^w_j \rangle^2

    The mean over i is the loss of the pair, which is symmetric in its views although its rows are
    not. Only rows of the *other* view are negatives, and there is no temperature: the length of the
    rows takes its place. Rows longer than :math:`\sqrt r` are shortened to it first, with gradients
    through their directions; else the lengths would grow without bound.

    Parameters
    ----------
    zs : sequence of Tensor, b × d
        The views of a batch, rows of any length.
    pairs : sequence of (int, int)
        Which views are compared: rows of the first with rows of the second.
    radius : float
        r > 0. Rows of length 1 are never changed where it is at least 1.

    Returns
    -------
    Tensor, P × b
        Losses of the samples. A batch of one sample has no negatives, only the first term.
    """
    z, (left, right, *_) = stacked(zs, pairs)  # U × b × d
    z = _shortened(z, math.sqrt(radius))
    across = z[left] @ z[right].mT  # P × b × b
    positive = across.diagonal(dim1=1, dim2=2)
    b = across.shape[1]
    own = torch.eye(b, dtype=torch.bool, device=z.device)
    negative = across.masked_fill(own, 0).square().sum(2)
    return negative / max(b - 1, 1) - 2 * positive


def _shortened(z: Tensor, length: float) -> Tensor:
    """Bring rows that are longer than `length` to it; others are divided by exactly 1."""
    lengths = torch.linalg.vector_norm(z, dim=-1, keepdim=True)
    shortened: Tensor = z / (lengths / length).clamp(min=1)
    return shortened
