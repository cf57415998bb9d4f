r"""InfoNCE with damped negatives: likely neighbours are pushed away less."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from dwcl.losses._pairs import stacked


def damped_infonce(
    zs: Sequence[Tensor],
    pairs: Sequence[tuple[int, int]],
    temperature: float,
    damping: Tensor,
) -> Tensor:
    r"""Loss of every row of every pair.

    Rows, positives and negatives are those of :func:`dwcl.losses.infonce`. The similarity of a row
    of sample i to a negative of sample j, in either view, counts by the factor 1 − P_ij:

    .. math::

        \ell_a = -\frac{s_{a,p(a)}}{\tau} + \log \Big( e^{s_{a,p(a)}/\tau}
            + \sum_{c \ne a, p(a)} e^{(1 - P_{i(a) i(c)}) \, s_{a,c}/\tau} \Big)

    So P_ij = 1 does not take a negative out; it adds e⁰ whatever its similarity.

    Parameters
    ----------
    zs : sequence of Tensor, b × d
        The views of a batch, rows of length 1.
    pairs : sequence of (int, int)
        Which views are compared.
    temperature : float
        τ > 0.
    damping : Tensor, b × b
        P, row i for the rows of sample i; gradients reach it. Its diagonal has no influence.

    Returns
    -------
    Tensor, P × 2b
        Row losses: the first b are of the pair's first view, the others of its second.
    """
    z, (left, right, *_) = stacked(zs, pairs)  # U × b × d
    own = torch.eye(z.shape[1], dtype=torch.bool, device=z.device)
    # The diagonal stands for a row and itself, or its partner: the latter is never damped.
    factor = (1 - damping).masked_fill(own, 1.0) / temperature
    # A row alone in its view has no sum: a number that is next to none keeps gradients finite.
    none = torch.finfo(z.dtype).min
    inside = (factor * (z @ z.mT)).masked_fill(own, none).logsumexp(dim=2)  # U × b
    across = z[left] @ z[right].mT  # P × b × b
    positive = across.diagonal(dim1=1, dim2=2) / temperature  # P × b
    # P is not symmetric: each side's rows take it by the row of their own sample.
    of_left = torch.logaddexp(inside[left], (factor * across).logsumexp(dim=2))
    of_right = torch.logaddexp(inside[right], (factor * across.mT).logsumexp(dim=2))
    return torch.cat([of_left - positive, of_right - positive], dim=1)
