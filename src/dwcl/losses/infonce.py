r"""InfoNCE between two views of a batch, for many pairs of views at once.

For views v and w with unit rows z (b samples), the 2b rows of both are stacked. The positive of a
row is its partner in the other view, its negatives are the other 2b − 2 rows; a row is never
compared with itself:

.. math::

    \ell_a = -\frac{s_{a,p(a)}}{\tau} + \log \sum_{c \ne a} e^{s_{a,c}/\tau}

The sum over c splits into a part inside the row's own view and a part across the pair. The part
inside a view is the same in every pair that the view takes part in, so each Gram block is computed
once per batch: V + P blocks for P pairs instead of 4·P, and no mask of size 2b × 2b.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor


def infonce(zs: Sequence[Tensor], pairs: Sequence[tuple[int, int]], temperature: float) -> Tensor:
    """Loss of every row of every pair.

    Parameters
    ----------
    zs : sequence of Tensor, b × d
        The views of a batch, rows of length 1.
    pairs : sequence of (int, int)
        Which views are compared; a view may be paired with itself, which leaves pure repulsion.
    temperature : float
        τ > 0.

    Returns
    -------
    Tensor, P × 2b
        Row losses: the first b are of the pair's first view, the others of its second.
    """
    zs = [z / math.sqrt(temperature) for z in zs]  # so that Gram entries are s/τ
    used = sorted({v for pair in pairs for v in pair})
    within = {v: zs[v] @ zs[v].T for v in used}  # b × b each
    inside = {v: _logsumexp_off_diagonal(within[v]) for v in used}  # b each
    rows = []
    for v, w in pairs:
        across = within[v] if v == w else zs[v] @ zs[w].T  # b × b, positives on the diagonal
        positive = across.diagonal()
        rows_v = torch.logaddexp(inside[v], across.logsumexp(dim=1)) - positive
        rows_w = torch.logaddexp(inside[w], across.logsumexp(dim=0)) - positive
        rows.append(torch.cat([rows_v, rows_w]))
    return torch.stack(rows)


def _logsumexp_off_diagonal(gram: Tensor) -> Tensor:
    """Log Σ_{c ≠ a} exp(gram[a, c]) for every row a; −inf where there is no other row."""
    diagonal = torch.eye(len(gram), dtype=torch.bool, device=gram.device)
    return gram.masked_fill(diagonal, -torch.inf).logsumexp(dim=1)
