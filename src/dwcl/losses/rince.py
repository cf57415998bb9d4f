r"""RINCE: InfoNCE made robust against wrong positives, for many pairs of views at once."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor

from dwcl.losses._pairs import stacked
from dwcl.losses.infonce import infonce


def rince(
    zs: Sequence[Tensor],
    pairs: Sequence[tuple[int, int]],
    temperature: float,
    *,
    exponent: float,
    density: float,
) -> Tensor:
    r"""Loss of every row of every pair.

    With the positive :math:`p_a = e^{s_{a,p(a)}/\tau}` of a row and the sum :math:`n_a` of the
    same over its 2b − 2 negatives,

    .. math::

        \ell_a = -\frac{p_a^q}{q} + \frac{(\lambda \, (p_a + n_a))^q}{q}.

    As q goes to 0 the rows come near those of InfoNCE plus ln λ, which weighs badly placed
    positives most; with q = 1 all positives weigh as much as they are well placed.

    Parameters
    ----------
    zs : sequence of Tensor, b × d
        The views of a batch, rows of length 1.
    pairs : sequence of (int, int)
        Which views are compared, as for :func:`dwcl.losses.infonce`.
    temperature : float
        τ > 0.
    exponent, density : float
        q in (0, 1] and λ > 0.

    Returns
    -------
    Tensor, P × 2b
        Row losses: the first b are of the pair's first view, the others of its second.
    """
    z, (left, right, *_) = stacked(zs, pairs)  # U × b × d
    positive = (z[left] * z[right]).sum(2) / temperature  # P × b
    positive = positive.repeat(1, 2)  # both rows of a sample have the same one
    # InfoNCE is log(p + n) − log p, so all the sums over negatives come with its products.
    whole = infonce(zs, pairs, temperature) + positive
    q = exponent
    return ((q * (whole + math.log(density))).exp() - (q * positive).exp()) / q
