r"""InfoNCE between two views of a batch, for many pairs of views at once.

For views v and w with unit rows z (b samples), the 2b rows of both are stacked. The positive of a
row is its partner in the other view, its negatives are the other 2b − 2 rows; a row is never
compared with itself:

.. math::

    \ell_a = -\frac{s_{a,p(a)}}{\tau} + \log \sum_{c \ne a} e^{s_{a,c}/\tau}

The sum over c splits into a part inside the row's own view and a part across the pair. The part
inside a view is the same in every pair that the view takes part in, so each Gram block is computed
once per batch: V + P blocks for P pairs instead of 4·P, and no mask of size 2b × 2b. All blocks of
a kind are one batched product: the number of operations does not grow with that of the pairs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from dwcl.losses._pairs import Sides, stacked


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
    z, sides = stacked(zs, pairs)
    z = z / math.sqrt(temperature)  # so that Gram entries are s/τ
    rows: Tensor = _RowLosses.apply(z, sides)  # type: ignore[no-untyped-call]
    return rows


class _RowLosses(torch.autograd.Function):
    """Row losses (P × 2b) of pairs of views, which are positions in z (U × b × d).

    With a backward step of its own: each Gram block is exponentiated once for all rows' gradients,
    where automatic differentiation would walk through every block for each of the operations.
    """

    @staticmethod
    def forward(ctx: Any, z: Tensor, sides: Sides) -> Tensor:
        left, right, alone, apart = sides
        within = z @ z.mT  # U × b × b
        # Before the diagonal goes: a view and itself have their block already.
        across = z.new_empty(len(left), z.shape[1], z.shape[1])  # P × b × b
        across[alone] = within[left[alone]]
        across[apart] = z[left[apart]] @ z[right[apart]].mT
        within.diagonal(dim1=1, dim2=2).fill_(-torch.inf)  # a row is not compared with itself
        inside = within.logsumexp(dim=2)  # U × b; −inf where there is no other row
        log_v = torch.logaddexp(inside[left], across.logsumexp(dim=2))  # P × b
        log_w = torch.logaddexp(inside[right], across.logsumexp(dim=1))
        ctx.save_for_backward(z, left, right, within, inside, across, log_v, log_w)
        positive = across.diagonal(dim1=1, dim2=2)
        return torch.cat([log_v - positive, log_w - positive], dim=1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        z, left, right, within, inside, across, log_v, log_w = ctx.saved_tensors
        grad_v, grad_w = grad.tensor_split(2, dim=1)  # P × b each
        # ∂ log Σ exp is a softmax, over the entries inside the view and across the pair together.
        by_entry = (across - log_v[:, :, None]).exp_().mul_(grad_v[:, :, None])
        by_entry += (across - log_w[:, None, :]).exp_().mul_(grad_w[:, None, :])
        by_entry.diagonal(dim1=1, dim2=2).sub_(grad_v + grad_w)  # the positives
        grad_z = torch.zeros_like(z)
        grad_z.index_add_(0, left, by_entry @ z[right])
        grad_z.index_add_(0, right, by_entry.mT @ z[left])
        # The softmax inside a view has the same shape in all its pairs; their shares add up.
        share = torch.zeros_like(inside)
        share.index_add_(0, left, grad_v * (inside[left] - log_v).exp())
        share.index_add_(0, right, grad_w * (inside[right] - log_w).exp())
        inner = (within - inside.nan_to_num(neginf=0.0)[:, :, None]).exp_().mul_(share[:, :, None])
        grad_z += (inner + inner.mT) @ z
        return grad_z, None
